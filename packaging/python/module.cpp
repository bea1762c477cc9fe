// The Python module `tern`: errors, threads, version. The other files have the rest.
#include <nanobind/stl/string.h>

#include <cstring>

#include "package.h"
#include "tern/core/base/build_info.h"
#include "tern/core/base/error.h"
#include "tern/core/base/threads.h"
#include "tern/version.h"

using namespace tern;
using namespace tern::python;

NB_MODULE(_tern, m) {
  m.attr("__name__") = "tern";  // where users find the classes; the package imports all of them
  static const nb::handle error = PyErr_NewExceptionWithDoc(
      "tern.Error", "What tern refuses: the text has the rule, the values and a way out.",
      PyExc_RuntimeError, nullptr);
  m.attr("Error") = error;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {  // a path in the text need not be valid UTF-8
      const auto size = static_cast<Py_ssize_t>(std::strlen(e.what()));
      const char* const odd_bytes = "surrogateescape";
      PyErr_SetObject(error.ptr(),
                      nb::steal(PyUnicode_DecodeUTF8(e.what(), size, odd_bytes)).ptr());
    }
  });
  m.attr("__version__") = nb::str(kVersion.data(), kVersion.size());
  m.def("build_info", &build_info, "Compiler, processor, vector code and BLAS, for bug reports.");
  m.def("num_threads", &num_threads, "The number of threads that tern computes with.");
  m.def("set_num_threads", &set_num_threads, "n"_a,
        "Sets the number of threads of the whole process. Results do not depend on it.");
  bind_tensor(m);
  bind_language_models(m);
  bind_runs(m);
  m.attr("__name__") = "tern._tern";
}
