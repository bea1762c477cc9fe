// The observer that records a run.
//
// A value is known by its tensor, or else by its elements: their storage, layout and version. All
// tensors of the run are kept until its end, so that no address is used twice. Every op is
// recorded, also one inside another op. If the outer op announces a result and has a form, that
// replaces the inner one's as the origin of these elements, and pruned() drops the inner ops.
// Otherwise the inner ops remain.
#include <unordered_map>
#include <utility>

#include "tern/core/ops/composed_scope.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"
#include "tern/onnx/trace.h"

namespace tern::onnx {
namespace {

bool same_layout(const Layout& a, const Layout& b) {
  return a.shape == b.shape && a.strides == b.strides && a.offset == b.offset;
}

class Recorder : public Observer {
 public:
  explicit Recorder(int opset) : opset_(opset) {}

  int add(Value::Origin origin, const Tensor& t, std::string name = "") {
    Value v{origin, t.dtype(), {}, std::move(name), t, t.ref()->storage->version(), {}};
    for (int64_t size : t.shape()) v.shape.push_back({size});
    trace.values.push_back(std::move(v));
    const int id = static_cast<int>(trace.values.size()) - 1;
    bind(t, id);
    return id;
  }

  /// The value of a tensor. One that is new here was made outside of ops.
  int id_of(const Tensor& t) {
    if (!t.defined()) return -1;
    const uint64_t version = t.ref()->storage->version();
    const std::vector<Known>& known = known_[t.ref()->storage.get()];
    // The tensor itself before others with the same layout: a slice may be all of its input in the
    // examples, but not for other sizes.
    for (auto k = known.rbegin(); k != known.rend(); ++k)
      if (k->version == version && k->tensor.ref() == t.ref()) return k->id;
    bool fixed = true, written = false;
    for (auto k = known.rbegin(); k != known.rend(); ++k) {
      const bool current = k->version == version;
      if (current && k->tensor.dtype() == t.dtype() && same_layout(k->tensor.layout(), t.layout()))
        return k->id;
      const Value::Origin origin = trace.values[static_cast<size_t>(k->id)].origin;
      fixed &= current && (origin == Value::Origin::state || origin == Value::Origin::constant);
      written |= !current;
    }
    if (fixed) return add(Value::Origin::constant, t);
    return add(Value::Origin::unknown, t,
               written ? "was written in place" : "is a view that no op made");
  }

  void begin(const OpScope& op) override {
    const std::string outer = frames_.empty() ? "" : frames_.front().call.op;
    Frame frame{{op.name(), op.module(), outer, nullptr, {}, {}, {}}, -1};
    if (op.pass() == Pass::backward) frame.call.op += " (backward)";
    frame.call.form = find_form(frame.call.op, opset_);
    for (int i = 0; i < op.num_inputs(); ++i) frame.call.inputs.push_back(id_of(op.input(i)));
    frames_.push_back(std::move(frame));
  }

  void noted(const OpScope&, const char* name, const Note& value) override {
    const Tensor* const* tensor = std::get_if<const Tensor*>(&value);
    if (tensor && std::string_view(name) == "result") {
      if (frames_.back().call.form) add_result(**tensor);
      return;
    }
    Property& p = frames_.back().call.properties[name];
    if (tensor) p.tensors.push_back(id_of(**tensor));
    if (const int64_t* whole = std::get_if<int64_t>(&value)) p.whole.push_back({*whole});
    if (const double* real = std::get_if<double>(&value)) p.real.push_back(*real);
    if (const Dims* all = std::get_if<Dims>(&value))
      for (int64_t each : *all) p.whole.push_back({each});
  }

  void made(const OpScope& op, const Tensor& result, int) override {
    if (result.defined() && !op.in_place()) add_result(result);
  }

  void end(const OpScope&) noexcept override { frames_.pop_back(); }

  Trace trace;

 private:
  struct Frame {
    Call call;
    int index;  // in trace.calls; -1: no result yet
  };
  struct Known {
    Tensor tensor;
    uint64_t version;
    int id;
  };

  void bind(const Tensor& t, int id) {
    known_[t.ref()->storage.get()].push_back({t, t.ref()->storage->version(), id});
  }

  void add_result(const Tensor& result) {
    Frame& frame = frames_.back();
    if (frame.call.form && frame.call.form->is_copy()) return bind(result, frame.call.inputs[0]);
    const int id = add(Value::Origin::result, result);
    if (frame.index < 0) {
      frame.index = static_cast<int>(trace.calls.size());
      trace.calls.push_back(frame.call);
    }
    trace.calls[static_cast<size_t>(frame.index)].results.push_back(id);
  }

  const int opset_;
  std::unordered_map<const detail::Storage*, std::vector<Known>> known_;
  std::vector<Frame> frames_;
};

}  // namespace

Trace record(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn,
             const std::vector<Tensor>& inputs, const std::vector<std::string>& names,
             const NamedTensors& state, int opset) {
  Recorder recorder(opset);
  // A view of its own for each input, since one tensor may be given as two.
  std::vector<Tensor> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    given.push_back(inputs[i].detach().clone());
    recorder.trace.inputs.push_back(recorder.add(Value::Origin::input, given[i], names[i]));
  }
  for (const auto& [name, t] : state) recorder.add(Value::Origin::state, t, name);
  const NoGradGuard no_grad;
  const ComposedScope composed;
  std::vector<Tensor> outputs;
  {
    const ObserverScope watching(recorder);
    outputs = fn(given);
  }
  check(!outputs.empty(), "export_onnx: the function returns no outputs");
  for (const Tensor& t : outputs) {
    check(t.defined(), "export_onnx: output {} is undefined", recorder.trace.outputs.size());
    recorder.trace.outputs.push_back(recorder.id_of(t));
  }
  return std::move(recorder.trace);
}

}  // namespace tern::onnx
