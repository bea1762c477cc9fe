#include "tern/apps/common/app.h"

namespace tern::apps {

// Given to this file alone, so that another version compiles no other.
std::string tern_version() { return TERN_APPS_VERSION; }

}  // namespace tern::apps
