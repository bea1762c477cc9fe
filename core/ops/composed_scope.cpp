// The thread-local switch that makes fused ops run their composed definitions.
#include "tern/core/ops/composed_scope.h"

#include <utility>

namespace tern {
namespace {

thread_local bool composes = false;

}  // namespace

ComposedScope::ComposedScope() : before_(std::exchange(composes, true)) {}

ComposedScope::~ComposedScope() { composes = before_; }

bool detail::composing() { return composes; }

}  // namespace tern
