// A variable with another value for a while: the base of scopes that set a mode of their thread.
#pragma once

#include <utility>

namespace tern::detail {

/// While one exists, the variable has the given value. Its end gives the variable its old value. A
/// public scope that has one keeps its destructor in a .cpp: else g++ warns of one in an optional.
template <class T>
class Restored {
 public:
  Restored(T& variable, T value) : variable_(variable), before_(std::exchange(variable, value)) {}
  ~Restored() { variable_ = before_; }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  T& variable_;
  T before_;
};

}  // namespace tern::detail
