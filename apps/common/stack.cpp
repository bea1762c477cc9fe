#include "tern/apps/common/stack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>

#include <exception>
#include <memory>

namespace tern::apps {
namespace {

constexpr size_t kStack = size_t{8} << 20;

bool is_small() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kStack;
}

struct Call {
  const std::function<int()>& body;
  int result = 0;
  std::exception_ptr error = {};
};

// LLVM's OpenMP gives its threads stacks of the shell's limit, which it read when it was loaded.
void enlarge_llvm_stacks() {
  using Set = void (*)(size_t);
  if (const auto set = reinterpret_cast<Set>(::dlsym(RTLD_DEFAULT, "kmp_set_stacksize_s")))
    set(kStack);
}

void* run(void* context) {
  Call& call = *static_cast<Call*>(context);
  try {
    call.result = call.body();
  } catch (...) {
    call.error = std::current_exception();
  }
  return nullptr;
}

}  // namespace

int on_large_stack(const std::function<int()>& body) {
  if (!is_small()) return body();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  const std::unique_ptr<pthread_attr_t, int (*)(pthread_attr_t*)> owner(&attributes,
                                                                        pthread_attr_destroy);
  pthread_attr_setstacksize(&attributes, kStack);
#ifdef __GLIBC__
  pthread_setattr_default_np(&attributes);  // of the pool, the loaders and GNU's OpenMP
#endif
  enlarge_llvm_stacks();
  Call call{body};
  pthread_t thread{};
  if (pthread_create(&thread, &attributes, run, &call) != 0) return body();
  pthread_join(thread, nullptr);
  if (call.error) std::rethrow_exception(call.error);
  return call.result;
}

}  // namespace tern::apps
