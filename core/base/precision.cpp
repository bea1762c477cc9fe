// The matmul precision of each thread, in a thread-local variable, and the precisions' names.
#include "tern/core/base/precision.h"

#include "tern/core/base/error.h"

namespace tern {
namespace {
thread_local MatmulPrecision current = MatmulPrecision::f32;
}  // namespace

std::string to_string(MatmulPrecision precision) {
  return precision == MatmulPrecision::bf16 ? "bf16" : "f32";
}

MatmulPrecision matmul_precision(const std::string& name) {
  for (MatmulPrecision p : {MatmulPrecision::f32, MatmulPrecision::bf16})
    if (name == to_string(p)) return p;
  fail(fmt::format("'{}' is not a precision; use f32 or bf16", name));
}

MatmulPrecision matmul_precision() { return current; }

MatmulPrecisionScope::MatmulPrecisionScope(MatmulPrecision precision)
    : precision_(current, precision) {}
MatmulPrecisionScope::~MatmulPrecisionScope() = default;

}  // namespace tern
