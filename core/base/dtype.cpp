// Prints element types to streams.
#include "tern/core/base/dtype.h"

#include <ostream>

namespace tern {

std::ostream& operator<<(std::ostream& out, DType t) { return out << name(t); }

}  // namespace tern
