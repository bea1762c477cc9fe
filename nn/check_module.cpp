// The checks of check_module, one function each: copies, fields, gradients, strides, batch,
// determinism, saving, replaced weights.
#include "tern/nn/check_module.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/node.h"
#include "tern/nn/check_module_subject.h"
#include "tern/nn/weights_instead.h"

namespace tern::nn::detail {
namespace {

namespace fs = std::filesystem;

// Each check returns a text that describes its fault, or an empty text.

void write_something_else(const Tensor& t) {
  NoGradGuard no_grad;
  add_(t, ones({}, t.dtype()));
}

std::string check_copies(const AnyModule& module, const Tensors& inputs) {
  Subject a(module);
  a.set_training(false);
  const Tensors want = a.run(inputs);
  const bool repeats = difference(a.run(inputs), want).empty();  // if false: check_determinism
  Subject b(module);
  b.set_training(false);
  if (std::string found = difference(b.run(inputs), want); repeats && !found.empty())
    return fmt::format("copies: two copies evaluate differently: {}", found);
  const NamedTensors own = state_dict(module.fields()), before = clones(own);
  for (const auto& [written, t] : state_dict(b.fields())) {
    write_something_else(t);
    for (size_t i = 0; i < own.size(); ++i)
      if (!same_bits(own[i].second, before[i].second)) {
        load_state_dict(module.fields(), "check_module", before, {});
        return fmt::format(
            "copies: a write to '{}' of a copy changes '{}' of the original, because they share "
            "elements. Hold a Parameter or Buffer, whose copies have their own elements",
            written, own[i].first);
      }
  }
  if (std::string found = difference(a.run(inputs), want); repeats && !found.empty())
    return fmt::format("copies: changed weights in one copy change the result of another: {}",
                       found);
  return "";
}

// Whether `names` contains the parameter, or a module around it.
bool names_it(const std::vector<std::string>& names, const std::string& parameter) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return parameter == name || parameter.starts_with(name + ".");
  });
}

std::string check_fields(const AnyModule& module, const Tensors& inputs,
                         const std::vector<std::string>& unused) {
  Subject subject(module);
  subject.set_training(true);
  NamedTensors named = subject.parameters();
  for (const std::string& name : unused)
    if (std::none_of(named.begin(), named.end(),
                     [&](const auto& p) { return names_it({name}, p.first); }))
      return fmt::format("fields: .unused lists '{}', but no parameter has that name or prefix",
                         name);
  std::erase_if(named, [](const auto& p) { return !p.second.requires_grad(); });
  const Tensor y = joined(subject.record(inputs));
  const auto reached = y.defined() ? tern::detail::leaf_nodes(y)
                                   : std::vector<tern::detail::Ref<tern::detail::LeafNode>>();
  auto is = [](const Tensor& t, const auto& leaf) { return leaf->owner == t.ref().get(); };
  for (const auto& leaf : reached)
    if (std::none_of(named.begin(), named.end(), [&](const auto& p) { return is(p.second, leaf); }))
      return fmt::format(
          "fields: the output depends on a parameter {} that `fields` does not visit: it would "
          "neither be trained nor saved",
          tern::detail::describe(*leaf));
  for (const auto& [name, t] : named)
    if (std::none_of(reached.begin(), reached.end(),
                     [&t = t, &is](const auto& leaf) { return is(t, leaf); }) &&
        !names_it(unused, name))
      return fmt::format(
          "fields: the output does not depend on parameter '{}' of shape {}; if that is right for "
          "these inputs, list it in .unused",
          name, t.shape());
  return "";
}

void check_gradients(const AnyModule& module, const Tensors& given, bool training,
                     GradcheckOptions options) {
  Subject subject(module);
  subject.to(DType::f64);
  subject.set_training(training);
  subject.remember();
  const Tensors inputs = to_f64(given, /*requires_grad=*/true);
  Tensors varied;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].requires_grad()) {
      varied.push_back(inputs[i]);
      options.names.push_back(fmt::format("input {}", i));
    }
  for (const auto& [name, t] : subject.parameters()) {
    varied.push_back(t);
    options.names.push_back(fmt::format("parameter '{}'", name));
  }
  auto fn = [&](const Tensors&) {
    subject.rewind();
    const Tensor y = joined(subject.record(inputs));
    return y.defined() ? y : zeros({1}, DType::f64);
  };
  // Nothing to train and no input with a gradient, as in a table of ids.
  if (std::none_of(varied.begin(), varied.end(), [](const Tensor& t) { return t.requires_grad(); }))
    return;
  gradcheck(fn, varied, options);
}

using Layout = std::pair<const char*, std::function<Tensor(const Tensor&)>>;

const std::vector<Layout>& layouts() {
  auto reversed_axes = [](const Tensor& t) {
    Dims axes;
    for (int i = t.ndim() - 1; i >= 0; --i) axes.push_back(i);
    return axes;
  };
  auto all_axes = [](const Tensor& t) {
    Dims axes;
    for (int i = 0; i < t.ndim(); ++i) axes.push_back(i);
    return axes;
  };
  static const std::vector<Layout> kAll = {
      {"transposed",
       [=](const Tensor& t) {
         const Dims axes = reversed_axes(t);
         return permute(permute(t, axes).contiguous(), axes);
       }},
      {"gaps in", [](const Tensor& t) { return slice(repeat_interleave(t, 2, -1), -1, 1, {}, 2); }},
      {"reversed",
       [=](const Tensor& t) { return flip(flip(t, all_axes(t)).contiguous(), all_axes(t)); }}};
  return kAll;
}

std::string check_strides(const AnyModule& module, const Tensors& given, DType dtype) {
  Subject subject(module);
  Tensors inputs = given;
  if (dtype == DType::f64) {
    subject.to(dtype);
    inputs = to_f64(given, /*requires_grad=*/false);
  }
  subject.set_training(false);
  subject.remember();
  const NamedTensors want = outputs_and_gradients(subject, inputs);
  for (const auto& [layout, change] : layouts()) {
    Tensors strided;
    for (const Tensor& t : inputs)
      strided.push_back(t.defined() && t.ndim() > 0 && t.numel() > 0 ? change(t.detach()) : t);
    NamedTensors got;
    try {
      got = outputs_and_gradients(subject, strided);
    } catch (const Error& e) {
      return fmt::format("strides: with {} inputs it fails: {}", layout, e.what());
    }
    for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
      if (got[i].first != want[i].first)
        return fmt::format("strides: with {} inputs there is no {}", layout, want[i].first);
      std::string found = difference(want[i].first, got[i].second, want[i].second, true);
      if (!found.empty()) return fmt::format("strides: with {} inputs {}", layout, found);
    }
    if (got.size() != want.size())
      return fmt::format("strides: with {} inputs {} outputs and gradients instead of {}", layout,
                         got.size(), want.size());
  }
  return "";
}

int axis_of(const std::vector<int>& axes, size_t i) { return i < axes.size() ? axes[i] : 0; }

// The batch size, which must be the same for all inputs that have a batch.
int64_t rows_of(const Tensors& inputs, const std::vector<int>& axes) {
  int64_t rows = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int axis = axis_of(axes, i);
    if (!inputs[i].defined() || axis == kNoBatch) continue;
    check(inputs[i].ndim() > 0,
          "check_module: input {} is a number and has no batch; set .input_axes to kNoBatch there",
          i);
    const int64_t size = inputs[i].size(axis);
    check(rows < 0 || rows == size,
          "check_module: input {} has {} rows, others {}; say in .input_axes which axis is the "
          "batch, or kNoBatch",
          i, size, rows);
    rows = size;
  }
  check(rows > 1,
        "check_module: a batch of {} rows cannot show whether rows mix; give two or more, or set "
        ".batch to BatchRule::mixed",
        std::max<int64_t>(rows, 0));
  return rows;
}

std::string check_batch(const AnyModule& module, const Tensors& inputs, bool training,
                        const CheckModuleOptions& options) {
  Subject subject(module);
  subject.set_training(training);
  subject.remember();
  const int64_t rows = rows_of(inputs, options.input_axes);
  const Tensors all = subject.run(inputs);
  for (int64_t row = 0; row < rows; ++row) {
    Tensors alone = inputs;
    for (size_t i = 0; i < alone.size(); ++i)
      if (const int axis = axis_of(options.input_axes, i); alone[i].defined() && axis != kNoBatch)
        alone[i] = narrow(alone[i], axis, row, 1);
    subject.rewind();
    const Tensors got = subject.run(alone);
    for (size_t i = 0; i < got.size(); ++i) {
      const int axis = axis_of(options.output_axes, i);
      if (axis == kNoBatch) continue;
      check(i < all.size() && all[i].ndim() > 0 && all[i].size(axis) == rows,
            "check_module: axis {} of {} is not the batch of {} rows; set .output_axes", axis,
            output_name(i), rows);
      std::string found = difference(output_name(i), got[i], narrow(all[i], axis, row, 1), true);
      if (!found.empty())
        return fmt::format(
            "batch: in {}, row {} of {} has another result when it runs by itself: {}{}",
            training ? "training" : "evaluation", row, rows, found,
            training ? "; if rows mix on purpose, set .batch to BatchRule::mixed_in_training" : "");
    }
  }
  return "";
}

std::string check_determinism(const AnyModule& module, const Tensors& inputs) {
  Subject subject(module);
  subject.set_training(false);
  const NamedTensors state = clones(state_dict(subject.fields()));
  const NamedTensors drawn = clones(generator_state(subject.fields()));
  const Tensors first = subject.run(inputs);
  if (std::string found = difference(subject.run(inputs), first); !found.empty())
    return fmt::format(
        "determinism: two evaluations differ: {}. Does `fields` visit the TrainingMode of the "
        "module?",
        found);
  const NamedTensors after = generator_state(subject.fields());
  for (size_t i = 0; i < drawn.size(); ++i)
    if (!same_bits(drawn[i].second, after[i].second))
      return fmt::format("determinism: evaluation draws random numbers from '{}'", drawn[i].first);
  const NamedTensors now = state_dict(subject.fields());
  for (size_t i = 0; i < state.size(); ++i)
    if (!same_bits(now[i].second, state[i].second))
      return fmt::format("determinism: evaluation changes '{}'", state[i].first);
  subject.set_training(true);
  subject.remember();
  const Tensors trained = subject.run(inputs);
  subject.rewind();
  if (std::string found = difference(subject.run(inputs), trained); !found.empty())
    return fmt::format(
        "determinism: training from the same state of generators and buffers differs: {}. Does "
        "`fields` visit its generator and its buffers?",
        found);
  return "";
}

/// A file with a unique name, removed at the end.
class TemporaryFile {
 public:
  TemporaryFile() {
    static std::atomic<int> count = 0;
    path_ = fs::temp_directory_path() /
            fmt::format("tern-check-module-{}-{}.safetensors", getpid(), ++count);
  }
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string check_saving(const AnyModule& module, const Tensors& inputs) {
  Subject a(module), b(module);
  a.set_training(true);
  a.run(inputs);
  for (const auto& [name, t] : a.parameters()) {
    NoGradGuard no_grad;
    mul_(t, 0.9);
  }
  const TemporaryFile file;
  save_weights(a.fields(), file.path(), {});
  try {
    load_weights(b.fields(), file.path(), {});
    load_generator_state(b.fields(), generator_state(a.fields()));
  } catch (const Error& e) {
    return fmt::format("save and load: the saved weights do not load: {}", e.what());
  }
  for (bool training : {false, true}) {
    a.set_training(training);
    b.set_training(training);
    if (std::string found = difference(b.run(inputs), a.run(inputs)); !found.empty())
      return fmt::format(
          "save and load: in {} the loaded module differs from the saved one: {}. Does `fields` "
          "visit everything that a forward pass changes?",
          training ? "training" : "evaluation", found);
  }
  return "";
}

// Replacing weights by w / 2 and scaling by 2 is exact, also for gradients.
std::string check_replaced(const AnyModule& module, const Tensors& inputs) {
  Subject own(module), replaced(module);
  Tensors halves, doubled;
  for (const auto& [name, t] : own.parameters()) {
    NoGradGuard no_grad;
    mul_(t, 0.9);
    halves.push_back((t.detach() * 0.5).set_requires_grad(t.requires_grad()));
  }
  for (const Tensor& t : halves) doubled.push_back(t * 2);
  for (Subject* s : {&own, &replaced}) s->remember();
  NamedTensors want = outputs_and_gradients(own, inputs);
  const NamedTensors parameters = replaced.parameters();
  const WeightsInstead scope(parameters, doubled);
  NamedTensors got = outputs_and_gradients(replaced, inputs);
  for (size_t i = 0; i < halves.size(); ++i)
    if (halves[i].grad().defined())
      got.emplace_back(fmt::format("gradient of parameter '{}'", parameters[i].first),
                       halves[i].grad() * 0.5);
  for (size_t i = 0; i < want.size(); ++i) {
    std::string found = i < got.size() && got[i].first == want[i].first
                            ? difference(want[i].first, got[i].second, want[i].second, false)
                            : fmt::format("there is no {}", want[i].first);
    if (!found.empty())
      return fmt::format(
          "other weights: the module gives another result when a WeightsInstead replaces its "
          "parameters than when they hold the same weights: {}. Does it use a tensor that it "
          "computed from a Parameter earlier?",
          found);
  }
  return "";
}

}  // namespace

void fail_call(size_t inputs) {
  fail(fmt::format(
      "check_module: the module cannot be called with {} tensors, or gives no tensors; pass the "
      "call as a function: check_module(module, [](const auto& m, const std::vector<Tensor>& x) "
      "{{ return m(x[0], ...).output; }}, inputs)",
      inputs));
}

void check_module(const AnyModule& module, const Tensors& inputs,
                  const CheckModuleOptions& options) {
  std::vector<std::string> faults;
  auto look = [&](const char* what, auto&& find) {
    try {
      if (std::string fault = find(); !fault.empty()) faults.push_back(std::move(fault));
    } catch (const Error& e) {
      const bool mixed = std::string_view(e.what()).find("mixes f32 and f64") != std::string::npos;
      faults.push_back(fmt::format("{}: {}{}", what, e.what(),
                                   mixed
                                       ? ". Does `fields` visit each Parameter and Buffer? nn::to "
                                         "converted those that it visits"
                                       : ""));
    }
  };
  auto report = [&] {
    check(faults.empty(), "check_module: {} fault{}\n  {}", faults.size(),
          faults.size() == 1 ? "" : "s", fmt::join(faults, "\n  "));
  };
  look("copies", [&] { return check_copies(module, inputs); });
  look("fields", [&] { return check_fields(module, inputs, options.unused); });
  report();  // shared or hidden weights cannot be converted, copied or saved
  const Subject subject(module);
  for (bool training : {false, true}) {
    if (training && !subject.has_modes()) continue;
    look(training ? "gradients in training" : "gradients", [&]() -> std::string {
      check_gradients(module, inputs, training, options.gradient);
      return "";
    });
  }
  look("strides", [&] { return check_strides(module, inputs, DType::f64); });
  look("strides", [&] { return check_strides(module, inputs, DType::f32); });
  if (options.batch != BatchRule::mixed)
    look("batch", [&] { return check_batch(module, inputs, /*training=*/false, options); });
  if (options.batch == BatchRule::independent && subject.has_modes() && !subject.is_random())
    look("batch", [&] { return check_batch(module, inputs, /*training=*/true, options); });
  look("determinism", [&] { return check_determinism(module, inputs); });
  look("other weights", [&] { return check_replaced(module, inputs); });
  look("save and load", [&] { return check_saving(module, inputs); });
  report();
}

}  // namespace tern::nn::detail
