// The convolution method of each thread, in a thread-local variable.
#include "tern/core/base/conv_method.h"

namespace tern {
namespace {

thread_local ConvMethod current_method = ConvMethod::winograd;

}  // namespace

ConvMethod conv_method() { return current_method; }

ConvMethodScope::ConvMethodScope(ConvMethod method) : method_(current_method, method) {}
ConvMethodScope::~ConvMethodScope() = default;

}  // namespace tern
