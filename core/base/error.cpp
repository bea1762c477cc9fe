// Throws errors, each with the innermost place in the user's model as a prefix. The list of places
// is thread-local.
#include "tern/core/base/error.h"

#include "tern/core/base/out_of_memory.h"

namespace tern {

using detail::ErrorPlace;

namespace {

thread_local const ErrorPlace* innermost = nullptr;

}  // namespace

ErrorPlace::ErrorPlace() : outer_(innermost) { innermost = this; }
ErrorPlace::~ErrorPlace() { innermost = outer_; }

void fail(const std::string& message) {
  for (const ErrorPlace* place = innermost; place; place = place->outer_) {
    std::string where = place->where();
    if (where.empty()) continue;
    where += ": ";
    throw Error(message.starts_with(where) ? message : where + message);
  }
  throw Error(message);
}

void fail_memory(const std::string& message) {
  try {
    fail(message);
  } catch (const Error& e) {
    throw OutOfMemory(e.what());
  }
}

void fail_unhandled(const char* type, int value) {
  fail(
      fmt::format("{}: there is no case for the value {}; add it to the switch "
                  "that the compiler warns about",
                  type, value));
}

void fail_io(const std::string& message) { throw IoError(message); }

void detail::fail_formatted(fmt::string_view message, fmt::format_args args) {
  fail(fmt::vformat(message, args));
}
void detail::fail_io_formatted(fmt::string_view message, fmt::format_args args) {
  fail_io(fmt::vformat(message, args));
}

}  // namespace tern
