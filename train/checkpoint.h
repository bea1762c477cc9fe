// Checkpoints: everything that a program needs for an exact resume, written atomically to one file.
// (tern::checkpoint of core/tape/autograd.h is unrelated: it saves memory by computing a function
// twice.)
//
//   training::Checkpoint checkpoint;
//   checkpoint.add("model", model);          // a module, an optimizer, anything with a state_dict
//   checkpoint.add("optimizer", optimizer);
//   checkpoint.add("seen", seen);            // numbers, texts, lists, generators
//   checkpoint.expect("data", checksum);     // must be the same when the file is loaded
//   checkpoint.save("run/checkpoint.safetensors");
//   ...
//   checkpoint.load("run/checkpoint.safetensors");  // in another process: restores everything
//
// The file is a safetensors file with a format version and a checksum of every byte. It is written
// under another name, synced and renamed, so that a kill at any moment leaves the old or the new
// file.
//
// Loading restores an optimizer's settings (learning rate, its factor, weight decay, betas), as
// PyTorch's load_state_dict does; notes() lists those that the program had set differently. To
// resume with another rate, set it afterwards: optimizer.set_settings({{"lr", 1e-4}}). A different
// rule (Adam for AdamW) or different groups of parameters are an IoError. Only a Learner
// (learner.h) stores which parameters are frozen; without one the program decides.
//
// Save outside of an optim::EmaScope: inside, the model has averaged weights, and saving it is an
// Error. (A Learner's parts have its own weights there, too.)
//
// Errors: if a file is truncated, damaged, of another format, or has other parts, an IoError names
// the file and the part. The parts before it have then been loaded.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/io/state.h"
#include "tern/nn/module_ref.h"
#include "tern/optim/optimizer.h"

namespace tern::training {

/// Writes a checkpoint file with this content, atomically.
void save_checkpoint(const std::string& path, SafeTensors content);
/// Reads a checkpoint; IoError if the file is truncated, damaged or no checkpoint of this version.
SafeTensors load_checkpoint(const std::string& path);
/// The text `name` of a checkpoint; if there is none, an IoError that names `path`.
const std::string& checkpoint_text(const SafeTensors& content, const std::string& name,
                                   const std::string& path);

class Checkpoint {
 public:
  /// Adds a part by two functions. `save` returns the tensors of the part; they may be handles,
  /// since they are written immediately. `load` gets them under the same names and throws Error if
  /// they do not fit.
  void add(const std::string& name, std::function<NamedTensors()> save,
           std::function<void(const NamedTensors&)> load);
  /// The same for a part that is a text (JSON).
  void add_text(const std::string& name, std::function<std::string()> save,
                std::function<void(const std::string&)> load);
  /// Adds a variable of the program, which must keep its address: a module (weights, buffers and
  /// generators), an optimizer (its state and, as NAME_settings, its settings), a type with
  /// state_dict() and load_state_dict(), int64_t, double, bool, std::string, vectors of int64_t or
  /// double, Rng, Tensor (loading needs the same shape).
  template <class T>
  void add(const std::string& name, T& part);
  /// Adds settings, which decide how the program continues. `load` returns a sentence for each
  /// setting that the program had set differently, for notes(). Files of earlier versions may lack
  /// the part; then nothing is loaded.
  void add_settings(const std::string& name, std::function<std::string()> save,
                    std::function<std::vector<std::string>(const std::string&)> load);
  /// Adds a text that must be the same when the file is loaded, such as the checksum of the data or
  /// the kind of model. IoError if it differs.
  void expect(const std::string& name, const std::string& value);

  /// The checkpoint in memory; its tensors share their elements with the parts.
  SafeTensors state() const;
  /// Loads a checkpoint in memory; `path` is for errors.
  void load_state(const SafeTensors& state, const std::string& path) const;
  void save(const std::string& path) const;
  void load(const std::string& path) const;
  /// Copies the numbers, texts, lists and generators among the parts, also the generators of
  /// modules. Returns a function that restores them. Weights and other tensors stay as they are, as
  /// do parts with functions or a state_dict() of their own.
  [[nodiscard]] std::function<void()> remember() const;
  /// Sentences to print: which settings in the last loaded file differ from the program's, and
  /// which of the two are now in effect. Empty if none differ.
  const std::vector<std::string>& notes() const { return *notes_; }

 private:
  struct Part {
    std::string name;
    std::function<void(const std::string& name, SafeTensors& to)> save;
    std::function<void(const std::string& name, const SafeTensors& from, const std::string& path)>
        load;
    bool may_be_missing = false;
    std::function<std::function<void()>()> remember = {};  // if remember() restores the part
  };
  void add_part(Part part);
  void add_module(const std::string& name, const nn::ModuleRef& module);
  void add_optimizer(const std::string& name, optim::Optimizer& optimizer);
  void add_value(const std::string& name, int64_t& value);
  void add_value(const std::string& name, double& value);
  void add_value(const std::string& name, bool& value);
  void add_value(const std::string& name, std::string& value);
  void add_value(const std::string& name, std::vector<int64_t>& value);
  void add_value(const std::string& name, std::vector<double>& value);
  void add_value(const std::string& name, Rng& value);
  void add_value(const std::string& name, Tensor& value);

  std::vector<Part> parts_;
  std::shared_ptr<std::vector<std::string>> notes_ = std::make_shared<std::vector<std::string>>();
};

template <class T>
void Checkpoint::add(const std::string& name, T& part) {
  if constexpr (nn::detail::HasFields<T>) {
    add_module(name, part);
  } else if constexpr (std::derived_from<T, optim::Optimizer>) {
    add_optimizer(name, part);
  } else if constexpr (requires { part.load_state_dict(part.state_dict()); }) {
    add(
        name, [&part] { return part.state_dict(); },
        [&part](const NamedTensors& state) { part.load_state_dict(state); });
  } else {
    add_value(name, part);
    if constexpr (!std::is_same_v<T, Tensor>)
      parts_.back().remember = [&part] { return [&part, copy = part] { part = copy; }; };
  }
}

}  // namespace tern::training
