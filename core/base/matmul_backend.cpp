// The matmul backend of each thread, in a thread-local variable, and the backends' names.
#include "tern/core/base/matmul_backend.h"

#include "tern/core/base/error.h"

namespace tern {
namespace {

thread_local MatmulBackend current_backend = MatmulBackend::tiles;

}  // namespace

std::string to_string(MatmulBackend backend) {
  return backend == MatmulBackend::blas ? "blas" : "tiles";
}

MatmulBackend matmul_backend(const std::string& name) {
  for (MatmulBackend b : {MatmulBackend::tiles, MatmulBackend::blas})
    if (name == to_string(b)) return b;
  fail(fmt::format("'{}' is not a matmul backend; use tiles or blas", name));
}

MatmulBackend matmul_backend() { return current_backend; }

MatmulBackendScope::MatmulBackendScope(MatmulBackend backend)
    : backend_(current_backend, backend) {}
MatmulBackendScope::~MatmulBackendScope() = default;

}  // namespace tern
