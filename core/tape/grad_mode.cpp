// Thread-local modes: whether ops are recorded, and whether they keep cheap results.
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

thread_local bool grad_mode = true;
thread_local bool recompute_mode = false;

}  // namespace

bool grad_enabled() { return grad_mode; }

NoGradGuard::NoGradGuard() : before_(grad_mode) { grad_mode = false; }
NoGradGuard::~NoGradGuard() { grad_mode = before_; }
EnableGradGuard::EnableGradGuard() : before_(grad_mode) { grad_mode = true; }
EnableGradGuard::~EnableGradGuard() { grad_mode = before_; }

RecomputeScope::RecomputeScope() : before_(recompute_mode) { recompute_mode = true; }
RecomputeScope::~RecomputeScope() { recompute_mode = before_; }
bool detail::recomputing() { return recompute_mode; }

}  // namespace tern
