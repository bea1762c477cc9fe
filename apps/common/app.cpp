#include "tern/apps/common/app.h"

#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <new>
#include <string>

#include "tern/apps/common/heap.h"
#include "tern/apps/common/machine.h"
#include "tern/apps/common/stack.h"
#include "tern/apps/common/standard_streams.h"
#include "tern/core/base/out_of_memory.h"
#include "tern/core/io/atomic_file.h"
#include "tern/train/learner.h"
#include "tern/train/progress.h"

namespace tern::apps {
namespace {

// Whether `e`, or what it was thrown for (a loader adds where it was), is one of these.
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
  return fmt::format("; {} bytes are free on {}", train::grouped(free->bytes), free->limit);
}

int report(const char* name, const std::exception& e) {
  const std::string text = fmt::format("{}: {}", name, e.what());
  if (is_any_of<OutOfMemory, std::bad_alloc>(e)) {
    complain(text + what_is_free());
  } else if (is_any_of<WriteError, StreamError, train::Diverged>(e)) {
    complain(text);
  } else if (dynamic_cast<const Error*>(&e)) {
    complain(text);
    return 2;
  } else {
    complain(fmt::format("{}: unexpected: {}", name, e.what()));
  }
  return 1;
}

}  // namespace

int run_app(const char* name, const std::function<int()>& body) {
  try {
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of writing like others
    fill_standard_streams();
    const int code = on_large_stack(body);
    check_standard_output();
    return code;
  } catch (const std::exception& e) {
    return report(name, e);
  }
}

}  // namespace tern::apps
