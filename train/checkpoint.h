// Checkpoints: everything that a program needs for an exact resume, in one file, whole or not at
// all. (tern::checkpoint of core/tape/autograd.h, which saves memory by computing a function twice,
// is something else.)
//
//   training::Checkpoint checkpoint;
//   checkpoint.add("model", model);          // a module, an optimizer, anything with a state_dict
//   checkpoint.add("optimizer", optimizer);
//   checkpoint.add("seen", seen);            // numbers, texts, lists, generators
//   checkpoint.expect("data", checksum);     // must be the same when the file is loaded
//   checkpoint.save("run/checkpoint.safetensors");
//   ...
//   checkpoint.load("run/checkpoint.safetensors");  // in another process: all is as it was
//
// The file is a safetensors file with a format version and a checksum of every byte. It is written
// beside its place, synced and renamed, so that a kill at any moment leaves the old or the new one.
//
// Loading restores an optimizer's settings (rate, decay, betas, the factor of the rate), as
// PyTorch's load_state_dict does; notes() lists those that the program had set differently. To
// resume with another rate, set it afterwards: optimizer.set_settings({{"lr", 1e-4}}). Another rule
// (Adam for AdamW) or other groups of parameters are an IoError. Which parameters are frozen is
// stored only with a Learner (learner.h); without one the program decides it.
//
// Errors: a file that is truncated, damaged, of another format or of other parts is an IoError that
// names the file and the part. Parts before that one have been loaded then.
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

/// Writes the content as such a file, atomically; `begun` as in save_safetensors().
void save_checkpoint(const std::string& path, SafeTensors content,
                     const std::function<void()>& begun = {});
/// Reads it back; IoError if the file is truncated, damaged or no checkpoint of this version.
SafeTensors load_checkpoint(const std::string& path);
/// A text of a checkpoint; IoError naming `path` if there is none of that name.
const std::string& checkpoint_text(const SafeTensors& content, const std::string& name,
                                   const std::string& path);

class Checkpoint {
 public:
  /// Adds a part by two functions. `save` returns its tensors, which may be handles: they are
  /// written at once. `load` gets them back under the same names, and throws Error if they do not
  /// fit.
  void add(const std::string& name, std::function<NamedTensors()> save,
           std::function<void(const NamedTensors&)> load);
  /// The same for a part that is a text (JSON).
  void add_text(const std::string& name, std::function<std::string()> save,
                std::function<void(const std::string&)> load);
  /// Adds a variable of the program, which must stay in its place: a module (weights, buffers and
  /// generators), an optimizer (its state and, as NAME_settings, its settings), a type with
  /// state_dict() and load_state_dict(), int64_t, double, bool, std::string, vectors of int64_t or
  /// double, Rng, Tensor (of the same shape when it is loaded).
  template <class T>
  void add(const std::string& name, T& part);
  /// The same for settings, which decide how the program continues. `load` returns a sentence for
  /// each setting that the program had set differently, for notes(). Files of earlier versions may
  /// lack the part; then nothing is loaded.
  void add_settings(const std::string& name, std::function<std::string()> save,
                    std::function<std::vector<std::string>(const std::string&)> load);
  /// Adds a text that must be the same when the file is loaded, such as the checksum of the data or
  /// the kind of model. IoError if it differs.
  void expect(const std::string& name, const std::string& value);

  /// The checkpoint in memory; its tensors share their elements with the parts.
  SafeTensors state() const;
  /// `path` is for errors.
  void load_state(const SafeTensors& state, const std::string& path) const;
  void save(const std::string& path) const;
  void load(const std::string& path) const;
  /// How the settings in the file loaded last differ from the program's, and which of the two now
  /// hold: sentences to print. Empty if they do not differ.
  const std::vector<std::string>& notes() const { return *notes_; }

 private:
  struct Part {
    std::string name;
    std::function<void(const std::string& name, SafeTensors& to)> save;
    std::function<void(const std::string& name, const SafeTensors& from, const std::string& path)>
        load;
    bool may_be_missing = false;
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
  }
}

}  // namespace tern::training
