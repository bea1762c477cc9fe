// Drops the calls that no output needs, and joins the traces of several runs into one.
#include "tern/onnx/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tern::onnx {
namespace {

using Origin = Value::Origin;

/// Calls fn(value) for every operand of a call, in a fixed order. `fn` may change it.
template <class AnyCall, class Fn>
void for_operands(AnyCall& call, Fn fn) {
  for (auto& id : call.inputs)
    if (id >= 0) fn(id);
  for (auto& [name, property] : call.properties)
    for (auto& id : property.tensors)
      if (id >= 0) fn(id);
}

bool unwritten(const Value& v) { return v.version == v.tensor.ref()->storage->version(); }

bool same_elements(const Value& a, const Value& b) {
  if (a.tensor.shape() != b.tensor.shape() || !unwritten(a) || !unwritten(b)) return false;
  const Tensor x = a.tensor.contiguous(), y = b.tensor.contiguous();
  return dispatch(a.dtype, [&]<class T>() {
    return x.numel() == 0 ||
           std::memcmp(x.data<T>(), y.data<T>(), sizeof(T) * static_cast<size_t>(x.numel())) == 0;
  });
}

/// Turns a tensor that differs between the runs into a size if it is a whole number of shape (), as
/// in x / x.size(0).
bool became_number(Value& v, const std::vector<Trace>& traces, size_t id) {
  if (v.tensor.ndim() != 0) return false;
  Size number;
  for (const Trace& trace : traces) {
    const Value& w = trace.values[id];
    const double x = w.tensor.item();
    if (!unwritten(w) || x != std::floor(x) || std::abs(x) >= 0x1p53) return false;
    number.push_back(static_cast<int64_t>(x));
  }
  v.origin = Origin::number;
  v.number = number;
  return true;
}

/// Finds the values that are constants or numbers. `equal` says whose elements are the same in all
/// runs.
void find_constants(Trace& all, const std::vector<bool>& equal, const std::vector<Trace>& traces) {
  for (size_t i = 0; i < all.values.size(); ++i) {
    Value& v = all.values[i];
    if (v.origin == Origin::state && !unwritten(v)) {
      v.origin = Origin::unknown;
      v.name = fmt::format("is {}, which the model writes to", v.name);
    }
    if (v.origin != Origin::constant || equal[i] || became_number(v, traces, i)) continue;
    v.origin = Origin::unknown;
    v.name = "differs between the examples, although no op made it of the inputs";
  }
  for (const Call& call : all.calls) {
    bool fixed = call.form != nullptr, leaf = fixed && !call.form->write;
    for_operands(call, [&](int id) {
      const Origin origin = all.values[static_cast<size_t>(id)].origin;
      // Weights keep their names: ops on them stay ops if they have a form.
      fixed &= origin == Origin::constant || (origin == Origin::state && !call.form->write);
      leaf = false;
    });
    for (int id : call.results) fixed &= equal[static_cast<size_t>(id)];
    for (int id : call.results) {
      Value& v = all.values[static_cast<size_t>(id)];
      if (fixed)
        v.origin = Origin::constant;
      else if (leaf)
        became_number(v, traces, static_cast<size_t>(id));
    }
  }
}

[[noreturn]] void fail_differ(const std::string& how) {
  fail(
      fmt::format("export_onnx: the examples run different ops: {}; the model chooses by the sizes "
                  "or values of its inputs. Give examples that take the same way",
                  how));
}

/// Whether two ops are written the same way, as view and reshape.
bool same_form(const Call& a, const Call& b) {
  if (!a.form || !b.form || !a.form->write || !b.form->write) return a.op == b.op;
  return a.form->write == b.form->write && std::string_view(a.form->onnx) == b.form->onnx;
}

void check_same(const Call& a, const Call& b, size_t at) {
  bool same = same_form(a, b) && a.inputs == b.inputs && a.results == b.results &&
              a.properties.size() == b.properties.size();
  for (auto x = a.properties.begin(), y = b.properties.begin(); same && x != a.properties.end();
       ++x, ++y)
    same = x->first == y->first && x->second.tensors == y->second.tensors &&
           x->second.whole.size() == y->second.whole.size() && x->second.real == y->second.real;
  if (!same)
    fail_differ(fmt::format("op {} is {} in the first, but {} in another", at, a.place(),
                            b.place() == a.place() ? "another call of it" : b.place()));
}

/// Softmax broadcasts its mask in ONNX, so that the mask need not be expanded.
void skip_expands(Trace& trace) {
  std::vector<const Call*> maker(trace.values.size());
  for (const Call& call : trace.calls)
    for (int id : call.results) maker[static_cast<size_t>(id)] = &call;
  for (Call& call : trace.calls) {
    const auto mask = call.properties.find("mask");
    if (mask == call.properties.end()) continue;
    for (int& id : mask->second.tensors)
      while (id >= 0 && maker[static_cast<size_t>(id)] &&
             maker[static_cast<size_t>(id)]->op == "expand")
        id = maker[static_cast<size_t>(id)]->inputs[0];
  }
}

void append(std::vector<Size>& to, const std::vector<Size>& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i].insert(to[i].end(), from[i].begin(), from[i].end());
}

}  // namespace

std::string Call::place() const {
  std::string out = op;
  if (!outer.empty() && outer != op) out += fmt::format(" (part of {})", outer);
  if (!module.empty()) out += " in module " + module;
  return out;
}

Trace pruned(const Trace& trace) {
  std::vector<bool> needed(trace.values.size());
  for (int id : trace.outputs) needed[static_cast<size_t>(id)] = true;
  std::vector<const Call*> calls;
  for (auto call = trace.calls.rbegin(); call != trace.calls.rend(); ++call) {
    auto is_needed = [&](int id) { return needed[static_cast<size_t>(id)]; };
    if (std::none_of(call->results.begin(), call->results.end(), is_needed)) continue;
    // What is a constant or a number now needs no call.
    if (trace.values[static_cast<size_t>(call->results[0])].origin != Origin::result) continue;
    for_operands(*call, [&](int id) { needed[static_cast<size_t>(id)] = true; });
    calls.push_back(&*call);
  }
  std::reverse(calls.begin(), calls.end());

  Trace out;
  std::vector<int> numbers(trace.values.size(), -1);
  auto renumber = [&](int& id, const std::string& user) {
    int& number = numbers[static_cast<size_t>(id)];
    if (number < 0) {
      const Value& v = trace.values[static_cast<size_t>(id)];
      check(v.origin != Origin::unknown,
            "export_onnx: a tensor of shape {} in {} {}, so that it cannot be written as ops of "
            "the inputs",
            v.tensor.shape(), user, v.name);
      number = static_cast<int>(out.values.size());
      out.values.push_back(v);
    }
    id = number;
  };
  for (int id : trace.inputs) {
    renumber(id, "the inputs");
    out.inputs.push_back(id);
  }
  for (const Call* call : calls) {
    Call& c = out.calls.emplace_back(*call);
    for_operands(c, [&](int& id) { renumber(id, c.place()); });
    for (int& id : c.results) renumber(id, c.place());
  }
  for (int id : trace.outputs) {
    renumber(id, "the outputs");
    out.outputs.push_back(id);
  }
  return out;
}

Trace merged(const std::vector<Trace>& traces) {
  Trace all = traces.front();
  std::vector<bool> equal(all.values.size(), true);  // elements are the same in all runs
  for (size_t run = 1; run < traces.size(); ++run) {
    const Trace& other = traces[run];
    for (size_t i = 0; i < std::min(all.calls.size(), other.calls.size()); ++i) {
      check_same(all.calls[i], other.calls[i], i);
      for (auto& [name, property] : all.calls[i].properties)
        append(property.whole, other.calls[i].properties.at(name).whole);
    }
    if (all.calls.size() != other.calls.size())
      fail_differ(fmt::format("{} ops in the first, but {} in another, as in a loop over an axis",
                              all.calls.size(), other.calls.size()));
    if (all.outputs != other.outputs || all.values.size() != other.values.size())
      fail_differ("another op makes the outputs");
    for (size_t i = 0; i < all.values.size(); ++i) {
      Value& v = all.values[i];
      const Value& w = other.values[i];
      check(v.shape.size() == w.shape.size() && v.dtype == w.dtype && v.origin == w.origin &&
                (v.origin == Origin::unknown || v.name == w.name),
            "export_onnx: value {} is {} {} in one example, and {} {} in another", v.name, v.dtype,
            v.tensor.shape(), w.dtype, w.tensor.shape());
      append(v.shape, w.shape);
      if (v.origin == Origin::constant || v.origin == Origin::result)
        equal[i] = equal[i] && same_elements(v, w);
    }
  }
  find_constants(all, equal, traces);
  skip_expands(all);
  return pruned(all);
}

}  // namespace tern::onnx
