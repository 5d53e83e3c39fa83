// What the files of probes share: how a probe begins, and the probes that are defined beside probes.cpp.
#pragma once
#include "calls.h"
#include "frames.h"
#include "tensor_class.h"

namespace framelift {

// The rehearsal a probe serves, or NULL: then the opcode's plain meaning holds (a generator that outlived its
// rehearsal).
#define PROBE(count)                                                                              \
  Rehearsal* r = current_rehearsal();                                                             \
  if (n != (count)) return PyErr_Format(PyExc_SystemError, "%s: wrong use of a probe", __func__); \
  if (r && raise_again(r)) return nullptr;                                                        \
  if (r) count_probe(r);

void count_probe(Rehearsal* r);
// Whether a rehearsal is over or was interrupted; then the exception is set again.
bool raise_again(Rehearsal* r);

// Objects of static C types whose attributes are external state: modules, functions, methods, super objects.
// Classes are too, whatever their metaclass is: PyType_Check finds them.
inline bool is_open_static(PyTypeObject* t) {
  return t == &PyModule_Type || t == &PyFunction_Type || t == &PyMethod_Type || t == &PySuper_Type ||
         t == &PyProperty_Type || t == &PyStaticMethod_Type || t == &PyClassMethod_Type || t == &PyFrame_Type;
}

// probe_variables.cpp
PyObject* load_global(PyObject*, PyObject* const* a, Py_ssize_t n);
PyObject* store_global(PyObject*, PyObject* const* a, Py_ssize_t n);
PyObject* delete_global(PyObject*, PyObject* const* a, Py_ssize_t n);
PyObject* load_deref(PyObject*, PyObject* const* a, Py_ssize_t n);
PyObject* store_deref(PyObject*, PyObject* const* a, Py_ssize_t n);
PyObject* delete_deref(PyObject*, PyObject* const* a, Py_ssize_t n);
// An external cell: its value as its variable would be read or written.
PyObject* read_contents(Rehearsal* r, PyObject* cell, PyObject* name);
PyObject* store_cell(Rehearsal* r, PyObject* cell, PyObject* value);
PyObject* delete_cell(Rehearsal* r, PyObject* cell, PyObject* name);

// probe_attributes.cpp
PyObject* load_attr(PyObject*, PyObject* const* a, Py_ssize_t n);
PyObject* test_attr(PyObject*, PyObject* const* a, Py_ssize_t n);
PyObject* store_attr(PyObject*, PyObject* const* a, Py_ssize_t n);
PyObject* delete_attr(PyObject*, PyObject* const* a, Py_ssize_t n);

}  // namespace framelift
