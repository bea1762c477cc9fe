// Ops as they run, and those who watch them. Every op opens a scope before its kernel runs and
// closes it afterwards, and so does the backward pass around each VJP. A scope costs a few
// nanoseconds, and tells
// - an error where it happened: `decoder.layers.2.linear1: linear: the input (5, 7) does not ...`;
// - an Observer of this thread, if there is one, what runs: Profile, AnomalyDetector, a user's own.
//
//   struct Count : Observer {
//     int ops = 0;
//     void begin(const OpScope&) override { ++ops; }
//   } count;
//   {
//     ObserverScope watching(count);
//     model(x);
//   }
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tern/core/base/error.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

enum class Pass { forward, backward };

/// Whether somebody watches this thread's ops.
bool observed();

/// An op at work in this thread. Scopes nest: ops are made of ops, VJPs of ops.
class OpScope : private detail::ErrorPlace {
 public:
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

  const char* name() const { return name_; }  ///< "linear"; of a VJP, the op that it belongs to
  Pass pass() const { return pass_; }         ///< backward: of a VJP, and of the ops that it runs
  bool is_vjp() const { return node_ != nullptr; }
  /// What goes in: the operands, undefined ones included; into a VJP the gradient of the output, as
  /// it begins.
  int num_inputs() const { return static_cast<int>(pointers_ ? count_ : list_.size()); }
  const Tensor& input(int i) const {
    return pointers_ ? *pointers_[i] : list_[static_cast<size_t>(i)];
  }
  /// Of a VJP, as it begins: what the gradient of input `i` of its op has gathered before,
  /// undefined if nothing. What is sent back may be added there in place.
  int num_gathered() const;
  const Tensor& gathered(int i) const;
  /// The module that the op belongs to: "decoder.layers.2.linear1". It is known from a parameter
  /// among the operands whose name a module walk has told (nn::named_parameters and its like), or
  /// from a ModuleScope. An op that is part of another belongs to that one's module; while somebody
  /// watches, others without these belong where the newest of their operands comes from. Empty if
  /// unknown.
  std::string module() const;
  /// The scope around this one; null for the outermost.
  const OpScope* outer() const { return outer_; }

 protected:
  /// `node`: the one whose VJP runs; null: an op. `to_leaves`: leaves gather in their grad().
  explicit OpScope(const char* name, const detail::Node* node = nullptr, bool to_leaves = false);
  ~OpScope();
  void set_inputs(const Tensor* const* inputs, int count) {
    pointers_ = inputs;
    count_ = count;
  }
  void set_inputs(std::span<const Tensor> inputs) { list_ = inputs; }
  /// Tells the observers that the op begins; the inputs are set.
  void open() {
    if (observed()) tell_begin();
  }
  /// Tells them of a result; number `index` of several.
  void announce(const Tensor& result, int index) {
    if (observed()) tell_made(result, index);
  }

 private:
  /// fn(observer, number) for the scopes of these numbers, the newest first.
  template <class Fn>
  void tell(uint64_t newest, uint64_t oldest, Fn fn);
  void tell_begin();
  void tell_made(const Tensor& result, int index);
  void pass_module_on(const Tensor& result) const;
  std::string where() const override;  // its own module alone

  const char* name_;
  const detail::Node* node_;
  Pass pass_;
  bool to_leaves_;
  const Tensor* const* pointers_ = nullptr;  // of count_ inputs, or null: they are in list_
  int count_ = 0;
  std::span<const Tensor> list_;
  const OpScope* outer_;
  // The numbers of the newest and the oldest ObserverScope that were told of the beginning; 0: none
  uint64_t told_newest_ = 0, told_oldest_ = 0;
};

/// A named part of a program, for those who watch: `Region region("optimizer");`
class Region : public OpScope {
 public:
  explicit Region(const char* name) : OpScope(name) { open(); }
  ~Region() = default;
};

/// A layer at work: what happens in its scope belongs to the module of `parameter`, as far as ops
/// have no parameters of their own. For layers that check their input, or compute with views of
/// their weights. `parts` of the parameter's name are left out: 1 for "weight", 2 for
/// "proj.weight".
class ModuleScope : private detail::ErrorPlace {
 public:
  explicit ModuleScope(const Tensor& parameter, int parts = 1);
  ~ModuleScope();

 private:
  friend class OpScope;
  std::string where() const override;
  const Tensor& parameter_;
  int parts_;
  const ModuleScope* outer_;
};

/// Somebody who watches the ops of a thread. What an observer computes itself is not observed.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Before the op's kernel runs. May throw.
  virtual void begin(const OpScope&) {}
  /// A result is there: of an op its tensor (index 0, 1, ... if it has several), of a VJP the
  /// gradient of input `index`, also one that was added in place to what that input had gathered
  /// (`result` is then the sum). May throw.
  virtual void made(const OpScope&, [[maybe_unused]] const Tensor& result,
                    [[maybe_unused]] int index) {}
  /// The op is done, or has thrown. Comes once for every begin that did not throw, in the reverse
  /// order, unless the observer's scope has ended by then.
  virtual void end(const OpScope&) noexcept {}
};

/// While it lives, `observer` is told of every op of this thread that begins. Several may watch at
/// a time, and end in any order, also while an op is at work or from within their own calls.
/// REQUIRES: it ends in the thread where it began.
class ObserverScope {
 public:
  explicit ObserverScope(Observer& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  friend class OpScope;
  Observer& observer_;
  ObserverScope* outer_;
  uint64_t number_;  // newer ones of a thread have larger numbers
};

/// The innermost op at work in this thread; null if there is none.
const OpScope* current_op();

/// The name that a module walk gave this parameter or buffer: "decoder.layers.2.linear1.weight";
/// empty if no walk came by.
std::string parameter_name(const Tensor& t);

/// Gives it. A name that ends in `name` behind a dot stays: walking a part of a model takes no
/// names away. Empty: takes it away. For module walks.
void set_parameter_name(const Tensor& t, const std::string& name);

}  // namespace tern
