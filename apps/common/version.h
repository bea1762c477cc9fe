// Which tern a program is of.
#pragma once

#include <string>

namespace tern::apps {

/// "0.1.0", or where the sources are a git repository "0.1.0, a85e1ba": as `git describe` said when
/// the build was configured.
std::string tern_version();

}  // namespace tern::apps
