// The thread-local switch that makes fused ops run their composed definitions.
#include "tern/core/ops/composed_scope.h"

namespace tern {
namespace {

thread_local bool composes = false;

}  // namespace

ComposedScope::ComposedScope() : mode_(composes, true) {}
ComposedScope::~ComposedScope() = default;

bool detail::composing() { return composes; }

}  // namespace tern
