#include "tern/train/diagnose.h"

namespace tern::train {

// Nothing watches the operations yet: running them again would tell nothing.
std::string diagnose_step(const std::function<void()>&) { return ""; }

}  // namespace tern::train
