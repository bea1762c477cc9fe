// Errors. Every failure throws an exception derived from tern::Error. Its text names the operation,
// the broken rule, the values and, if possible, a way out.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "tern/core/base/cpp20.h"

namespace tern {

/// A wrong argument or a broken rule.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file, archive or stream is missing, damaged or of the wrong kind.
class IoError : public Error {
 public:
  using Error::Error;
};

/// Throws Error.
[[noreturn]] void fail(const std::string& message);

namespace detail {

/// The place in the user's model where this thread works (an op's scope, tape/op.h). While such an
/// object exists, errors of fail() and check() begin with where() of the innermost place that has
/// text.
class ErrorPlace {
 public:
  ErrorPlace(const ErrorPlace&) = delete;
  ErrorPlace& operator=(const ErrorPlace&) = delete;

 protected:
  ErrorPlace();
  ~ErrorPlace();

 private:
  friend void tern::fail(const std::string& message);
  virtual std::string where() const = 0;
  const ErrorPlace* outer_;
};

}  // namespace detail

[[noreturn]] void fail_io(const std::string& message);

namespace detail {
// Kept out of the templates below, since those are compiled for every call of check.
[[noreturn]] void fail_formatted(fmt::string_view message, fmt::format_args args);
[[noreturn]] void fail_io_formatted(fmt::string_view message, fmt::format_args args);
}  // namespace detail

/// Throws Error with the formatted message unless `ok`. Arguments are formatted only on failure.
template <class... Args>
void check(bool ok, fmt::format_string<Args...> message, Args&&... args) {
  if (!ok) [[unlikely]]
    detail::fail_formatted(message, fmt::make_format_args(args...));
}

/// Like check, but throws IoError.
template <class... Args>
void check_io(bool ok, fmt::format_string<Args...> message, Args&&... args) {
  if (!ok) [[unlikely]]
    detail::fail_io_formatted(message, fmt::make_format_args(args...));
}

/// Ends a switch that handles every value of an enum and has no default (so that the compiler finds
/// each switch that lacks a new value): fail_unhandled("DType", t).
[[noreturn]] void fail_unhandled(const char* type, int value);
template <class Enum>
[[noreturn]] void fail_unhandled(const char* type, Enum value) {
  fail_unhandled(type, static_cast<int>(value));
}

}  // namespace tern
