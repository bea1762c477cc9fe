// Thread-local modes: whether ops are recorded, and whether they keep cheap results.
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

thread_local bool grad_mode = true;
thread_local bool recompute_mode = false;

}  // namespace

bool grad_enabled() { return grad_mode; }

NoGradGuard::NoGradGuard() : mode_(grad_mode, false) {}
NoGradGuard::~NoGradGuard() = default;
EnableGradGuard::EnableGradGuard() : mode_(grad_mode, true) {}
EnableGradGuard::~EnableGradGuard() = default;
RecomputeScope::RecomputeScope() : mode_(recompute_mode, true) {}
RecomputeScope::~RecomputeScope() = default;

bool detail::recomputing() { return recompute_mode; }

}  // namespace tern
