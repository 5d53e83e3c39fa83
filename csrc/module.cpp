// The extension module framelift._core: collects what the other files offer.
#include "places.h"
#include "state.h"

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "framelift._core",
                                 "Native core of framelift: frame hook, probes, guard programs.", -1, nullptr};

namespace framelift {
bool init_sets(PyObject* module);          // sets.cpp
bool init_tensor_reads(PyObject* module);  // tensor_reads.cpp
}

PyMODINIT_FUNC PyInit__core() {
  PyObject* module = PyModule_Create(&definition);
  if (!module) return nullptr;
  using namespace framelift;
  if (!init_hook(module) || !init_probes(module) || !init_guards(module) || !init_entries(module) || !init_compiled(module) ||
      !init_memory(module) || !init_places(module) || !init_instances(module) || !init_resume(module) || !init_sets(module) ||
      !init_tensor_reads(module)) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
