// What the parts of the Python package share: arrays, computing without the GIL, texts.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

using NumpyArray = decltype(nb::ndarray<nb::numpy>().cast());
using OnText = std::optional<nb::callable>;
using Texts = std::variant<std::string, std::vector<std::string>>;

/// An array of NumPy, PyTorch or DLPack as a tensor, on its memory if tern has the type of its
/// elements, else a copy. `copy`: always or never copy. TypeError for what is no such array.
Tensor from_object(nb::handle object, std::optional<bool> copy = {});
/// The tensor as an array of NumPy, on its memory.
NumpyArray to_numpy(const Tensor& t);

void bind_tensor(nb::module_& m);           ///< Tensor, tensor, load_tensors, save_tensors
void bind_language_models(nb::module_& m);  ///< LanguageModel, Chat, Sampling, Encoder
void bind_runs(nb::module_& m);             ///< Classifier, Translator

/// compute() while other threads of Python run.
template <class F>
auto computed(F compute) {
  const nb::gil_scoped_release no_gil;
  return compute();
}

/// Shows text, which may be empty, and looks for Ctrl-C. False ends a computation.
using Tick = std::function<bool(std::string_view)>;

/// compute(tick) in the same way. What Python raises in `tick` ends the computation, and is raised
/// when that has ended in good order.
template <class F>
auto computed(const OnText& on_text, F compute) {
  std::exception_ptr raised;
  const Tick tick = [&](std::string_view text) {
    const nb::gil_scoped_acquire gil;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (on_text && !text.empty()) (*on_text)(nb::str(text.data(), text.size()));
    } catch (...) {
      raised = std::current_exception();
    }
    return !raised;
  };
  const nb::gil_scoped_release no_gil;
  auto result = compute(tick);
  if (raised) std::rethrow_exception(raised);
  return result;
}

/// A UserWarning of Python.
inline void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) != 0) throw nb::python_error();
}

/// f(list of texts) -> list of texts; one text if `texts` is one.
template <class F>
Texts each(const Texts& texts, F f) {
  if (const auto* const one = std::get_if<std::string>(&texts)) return f({*one}).at(0);
  return f(std::get<std::vector<std::string>>(texts));
}

}  // namespace tern::python
