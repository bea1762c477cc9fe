// The style sheet of the reports' pages.
#pragma once

#include <string>

namespace tern::apps {

/// For light and dark screens from 320 pixels on.
std::string page_style();

}  // namespace tern::apps
