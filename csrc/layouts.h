// What the core believes of structs that no public header promises, checked when it is loaded: against the CPython and
// the torch that run, which may be other releases than those it was built with.
#pragma once
#include <Python.h>

namespace framelift {

// Whether tensors that torch makes are as its headers said.  In tensor_rows.cpp.
bool tensors_are_known();

// Whether caches of functools lie in memory as believed.  In lru_caches.cpp.
bool lru_caches_are_known();

// LAYOUTS: (what, file of csrc, whether it is as believed), ...
bool init_layouts(PyObject* module);

}  // namespace framelift
