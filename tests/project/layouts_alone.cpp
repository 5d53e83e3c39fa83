// The core's checks of CPython's structs as a module of their own, without torch: see test_structs.py.
#include "layouts.h"

namespace framelift {

void raise_cpp_exception() noexcept { PyErr_SetString(PyExc_RuntimeError, "C++ exception"); }
void report_cpp_exception() noexcept {}

}  // namespace framelift

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "layouts_alone", nullptr, -1, nullptr};

PyMODINIT_FUNC PyInit_layouts_alone() {
  PyObject* module = PyModule_Create(&definition);
  return module && framelift::init_layouts(module) ? module : nullptr;
}
