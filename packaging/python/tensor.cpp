// Tensors and arrays of others on one memory (DLPack), and files of weights.
#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "package.h"
#include "tern/core/io/element_types.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/io/tensor_file.h"
#include "tern/core/ops/ops.h"

namespace tern::python {
namespace {

using NoGil = nb::call_guard<nb::gil_scoped_release>;

/// The type of the elements, as files of weights call it.
const detail::ElementType& element_type(nb::dlpack::dtype d) {
  constexpr const char* kNames[] = {"I", "U", "F", "", "BF"};
  constexpr uint8_t kBool = 6;
  const std::string name = d.code == kBool ? "BOOL"
                           : d.code < std::size(kNames)
                               ? fmt::format("{}{}", kNames[d.code], d.bits)
                               : "";
  const detail::ElementType* const type = detail::find_element_type(name);
  if (d.lanes != 1 || !type)
    throw nb::type_error(
        "tern.tensor: elements are float32, float64, int64 or uint8, or become these by a copy: "
        "float16, bfloat16, bool, and integers below 64 bits; convert others by astype()");
  return *type;
}

/// A tensor of the array's elements, each converted.
Tensor converted(const void* data, Shape shape, Strides strides, const detail::ElementType& type) {
  Tensor out = empty(shape, type.dtype);
  shape.push_back(type.bytes);
  for (int64_t& stride : strides) stride *= type.bytes;
  strides.push_back(1);
  const Tensor bytes =
      Tensor::wrap(static_cast<const uint8_t*>(data), shape, {.strides = strides}).contiguous();
  dispatch(out.dtype(), [&]<class T>() {
    type.convert(reinterpret_cast<const std::byte*>(bytes.data<uint8_t>()), out.mutable_data<T>(),
                 out.numel());
  });
  return out;
}

/// A tensor on the memory of `array`, which it keeps, or a copy.
template <class Array>
Tensor wrap(const Array& array, std::optional<bool> copy) {
  const detail::ElementType& type = element_type(array.dtype());
  Shape shape;
  Strides strides;
  for (size_t i = 0; i < array.ndim(); ++i) {
    shape.push_back(static_cast<int64_t>(array.shape(i)));
    strides.push_back(array.stride(i));
  }
  if (type.convert && copy && !*copy)
    throw nb::value_error("tern.tensor: copy=False, but tern has no elements of this type");
  const nb::gil_scoped_release no_gil;
  if (type.convert) return converted(array.data(), shape, strides, type);
  const Tensor t = dispatch(type.dtype, [&]<class T>() {
    using Element = std::conditional_t<Array::ReadOnly, const T, T>;
    // nanobind takes the GIL to release the array, on any thread.
    return Tensor::wrap(static_cast<Element*>(array.data()), shape,
                        {.strides = strides, .owner = std::make_shared<Array>(array)});
  });
  return copy.value_or(false) ? t.clone() : t;
}

/// An array of that framework on the elements of the tensor, which it keeps.
template <class Framework>
nb::object to_array(const Tensor& t) {
  const std::vector<size_t> shape(t.shape().begin(), t.shape().end());
  const std::vector<int64_t> strides(t.strides().begin(), t.strides().end());
  auto kept = std::make_unique<Tensor>(t);
  const nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  kept.release();
  return dispatch(t.dtype(), [&]<class T>() -> nb::object {
    const auto array = [&]<class Element>(Element* p) {
      return nb::cast(
          nb::ndarray<Framework, Element>(p, shape.size(), shape.data(), owner, strides.data()));
    };
    const T* const data = t.data<T>();
    return t.ref()->storage->read_only() ? array(data) : array(const_cast<T*>(data));
  });
}

nb::object to_dlpack(const Tensor& t, const nb::object& stream,
                     const std::optional<std::pair<int, int>>& max_version,
                     const nb::object& dl_device, std::optional<bool> copy) {
  const Tensor own = copy.value_or(false) ? t.clone() : t;
  if (own.ref()->storage->read_only() && (!max_version || max_version->first < 1))
    throw nb::buffer_error("this memory is read-only, which only DLPack 1.0 can say; make a copy");
  return to_array<nb::array_api>(own).attr("__dlpack__")(
      "stream"_a = stream, "max_version"_a = max_version, "dl_device"_a = dl_device);
}

nb::object to_array_interface(const Tensor& t, const nb::object& dtype, const nb::object& copy) {
  return nb::module_::import_("numpy").attr("array")(to_numpy(t), "dtype"_a = dtype,
                                                     "copy"_a = copy);
}

std::map<std::string, Tensor> load(const std::filesystem::path& path) {
  const SafeTensors file = load_tensors(path.string());
  return {file.tensors.begin(), file.tensors.end()};
}

void save(const std::filesystem::path& path, const std::map<std::string, nb::object>& arrays) {
  SafeTensors file;
  for (const auto& [name, array] : arrays) file.tensors.emplace_back(name, from_object(array));
  const nb::gil_scoped_release no_gil;
  save_safetensors(path.string(), file);
}

}  // namespace

Tensor from_object(nb::handle object, std::optional<bool> copy) {
  using Writable = nb::ndarray<nb::device::cpu>;
  using ReadOnly = nb::ndarray<nb::ro, nb::device::cpu>;
  if (Tensor t; nb::try_cast(object, t)) return copy.value_or(false) ? t.clone() : t;
  nb::object source = nb::borrow(object);
  if (nb::hasattr(object, "is_neg") && nb::cast<bool>(object.attr("is_neg")()))
    throw nb::type_error(
        "tern.tensor: this tensor's negative bit is set, which DLPack does not tell; give "
        "x.resolve_neg()");
  // nanobind would go around a refusal of PyTorch's, such as that of a tensor with a gradient.
  if (nb::hasattr(object, "__dlpack__") && !PyObject_CheckBuffer(object.ptr())) try {
      source = object.attr("__dlpack__")("max_version"_a = std::pair(1, 1));
    } catch (nb::python_error& e) {
      nb::raise_from(e, PyExc_TypeError, "tern.tensor: the array refuses to share its memory");
    }
  if (Writable array; nb::try_cast(source, array, false)) return wrap(array, copy);
  if (ReadOnly array; nb::try_cast(source, array, false)) return wrap(array, copy);
  throw nb::type_error(
      "tern.tensor: this is no array in the memory of the CPU with elements in its byte order "
      "(NumPy, PyTorch, DLPack); give a list to numpy.array() first");
}

NumpyArray to_numpy(const Tensor& t) { return nb::borrow<NumpyArray>(to_array<nb::numpy>(t)); }

void bind_tensor(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor",
                     "Elements that tern and other libraries share. numpy.asarray(t), "
                     "numpy.from_dlpack(t) and torch.from_dlpack(t) copy nothing.")
      .def("numpy", &to_numpy, "The elements as an array of NumPy, on the same memory.")
      .def("__array__", &to_array_interface, "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack__", &to_dlpack, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack_device__", [](const Tensor&) { return std::pair(1, 0); })
      .def_prop_ro(
          "shape",
          [](const Tensor& t) {
            return nb::tuple(nb::cast(std::vector<int64_t>(t.shape().begin(), t.shape().end())));
          })
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return to_numpy(t).attr("dtype"); },
          "The type of the elements, as one of NumPy.")
      .def(
          "__repr__", [](const Tensor& t) { return to_string(t); }, NoGil());
  m.def("tensor", &from_object, "array"_a.none(), "copy"_a = nb::none(),
        "A tensor on the memory of an array (NumPy, PyTorch, DLPack, buffers), which it keeps. "
        "Any strides, also negative ones; read-only memory stays so. float16, bfloat16, bool and "
        "integers below 64 bits are copied, to float32, uint8 and int64. copy: always (True) or "
        "never (False) copy.");
  m.def("load_tensors", &load, "path"_a, NoGil(),
        "The tensors of a file of weights by name: safetensors, or PyTorch's .pt, .pth and .bin.");
  m.def("save_tensors", &save, "path"_a, "tensors"_a,
        "Writes arrays or tensors by name to a safetensors file, completely or not at all.");
}

}  // namespace tern::python
