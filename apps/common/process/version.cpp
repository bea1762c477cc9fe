// The version text, which the build passes to this file.
#include "tern/apps/common/process/app.h"

namespace tern::apps {

// Only this file gets the macro, so that a new version recompiles nothing else.
std::string tern_version() { return TERN_APPS_VERSION; }

}  // namespace tern::apps
