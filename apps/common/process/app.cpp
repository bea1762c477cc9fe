// Runs a program's body: turns exceptions into one line and an exit code, and gives small-stack
// environments (`ulimit -s`) a larger stack.
#include "tern/apps/common/process/app.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <memory>
#include <string>
#include <thread>

#include "tern/apps/common/process/machine.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/core/base/out_of_memory.h"
#include "tern/core/io/atomic_file.h"
#include "tern/dist/world.h"
#include "tern/train/learner.h"
#include "tern/train/progress.h"

namespace tern::apps {
namespace {

// Whether `e`, or an exception nested in it, is one of these. (Loaders nest an error in one that
// says where it happened.)
template <class... Kinds>
bool is_any_of(const std::exception& e) {
  if ((dynamic_cast<const Kinds*>(&e) || ...)) return true;
  try {
    std::rethrow_if_nested(e);
  } catch (const std::exception& inner) {
    return is_any_of<Kinds...>(inner);
  } catch (...) {
  }
  return false;
}

std::string what_is_free() {
  const auto free = free_memory();
  if (!free) return "";
  return fmt::format("; {} bytes are free on {}", training::grouped(free->bytes), free->limit);
}

std::string describe(const char* name, const std::exception& e) {
  if (is_any_of<OutOfMemory, std::bad_alloc>(e))
    return fmt::format("{}: {}{}", name, e.what(), what_is_free());
  const bool known = is_any_of<Error, StreamError>(e);
  return fmt::format("{}: {}{}", name, known ? "" : "unexpected: ", e.what());
}

constexpr size_t kStack = size_t{8} << 20;

bool is_small_stack() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kStack;
}

struct Call {
  const std::function<int()>& body;
  int result = 0;
  std::exception_ptr error = {};
};

// LLVM's OpenMP reads the stack limit when it is loaded, and gives its threads stacks of that size.
void enlarge_llvm_stacks() {
  using Set = void (*)(size_t);
  if (const auto set = reinterpret_cast<Set>(::dlsym(RTLD_DEFAULT, "kmp_set_stacksize_s")))
    set(kStack);
}

void* run_call(void* context) {
  Call& call = *static_cast<Call*>(context);
  try {
    call.result = call.body();
  } catch (...) {
    call.error = std::current_exception();
  }
  return nullptr;
}

// Runs `body` and all threads that it starts on stacks of at least 8 MiB, even where `ulimit -s` is
// lower: OpenBLAS needs more than 64 KiB. An exception of `body` is rethrown here.
int on_large_stack(const std::function<int()>& body) {
  if (!is_small_stack()) return body();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  const std::unique_ptr<pthread_attr_t, int (*)(pthread_attr_t*)> owner(&attributes,
                                                                        pthread_attr_destroy);
  pthread_attr_setstacksize(&attributes, kStack);
#ifdef __GLIBC__
  pthread_setattr_default_np(&attributes);  // for the pool, the loaders and GNU's OpenMP
#endif
  enlarge_llvm_stacks();
  Call call{body};
  pthread_t thread{};
  if (pthread_create(&thread, &attributes, run_call, &call) != 0) return body();
  pthread_join(thread, nullptr);
  if (call.error) std::rethrow_exception(call.error);
  return call.result;
}

}  // namespace

int exit_code(const std::exception& e) {
  if (const auto* told = dynamic_cast<const dist::RankError*>(&e))
    return told->code() > 0 ? told->code() : 2;
  if (is_any_of<OutOfMemory, std::bad_alloc, WriteError, StreamError, training::Diverged>(e))
    return 1;
  return dynamic_cast<const Error*>(&e) ? 2 : 1;
}

int run_app(const char* name, const std::function<int()>& body, bool silent) {
  try {
    std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit gives a write error, not a signal
    fill_standard_streams();
    check_io(!silent || std::freopen("/dev/null", "w", stdout), "/dev/null cannot be opened");
    const int code = on_large_stack(body);
    check_standard_output();
    return code;
  } catch (const std::exception& e) {
    // mpirun kills all ranks as soon as one ends with an error. This one waits, so that rank 0 can
    // print the message first; usually it is killed while it waits.
    if (silent)
      std::this_thread::sleep_for(std::chrono::seconds(5));
    else
      complain(describe(name, e));
    return exit_code(e);
  }
}

}  // namespace tern::apps
