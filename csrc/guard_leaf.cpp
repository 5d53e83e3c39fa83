// Immutable leaves: which values they are, and when two of them are the same.  The Python twins are in guards/kinds.py.
#include <cmath>

#include "guard.h"

namespace framelift {

static std::vector<PyTypeObject*> simple_types;  // immutable, compared without running Python code

static bool is_simple(PyTypeObject* type) {
  for (PyTypeObject* known : simple_types)
    if (known == type) return true;
  return false;
}

bool simple_leaf(PyObject* value) { return is_simple(Py_TYPE(value)); }

bool immutable_leaf(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (is_simple(type)) return true;
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
      if (!immutable_leaf(PyTuple_GET_ITEM(value, i))) return false;
    return true;
  }
  if (type == &PySlice_Type) {
    PySliceObject* slice = (PySliceObject*)value;
    return immutable_leaf(slice->start) && immutable_leaf(slice->stop) && immutable_leaf(slice->step);
  }
  if (type == &PyFrozenSet_Type) {
    PySetObject* set = (PySetObject*)value;
    for (Py_ssize_t i = 0; i <= set->mask; i++) {
      setentry& entry = set->table[i];
      bool used = entry.key && entry.hash != -1;  // -1 marks a removed entry
      if (used && !immutable_leaf(entry.key)) return false;
    }
    return true;
  }
  return false;
}

bool set_iterates_as(PyObject* value, const std::vector<PyObject*>& elements) {
  if (!PyObject_TypeCheck(value, &PySet_Type)) return false;
  const PySetObject* set = (const PySetObject*)value;
  if ((size_t)set->used != elements.size()) return false;
  size_t next = 0;
  for (Py_ssize_t i = 0; i <= set->mask && next < elements.size(); i++) {
    const setentry& entry = set->table[i];
    bool used = entry.key && entry.hash != -1;  // the mark of a removed element has a hash that no element has
    if (used && entry.key != elements[next++]) return false;
  }
  return next == elements.size();
}

bool has_leaf_keys(PyObject* dict) {
  if (dict_has_only_strings(dict)) return true;
  Py_ssize_t position = 0;
  PyObject* key;
  while (PyDict_Next(dict, &position, &key, nullptr))
    if (!immutable_leaf(key)) return false;
  return true;
}

static bool same_double(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

static Outcome compare(PyObject* a, PyObject* b) {
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  return equal < 0 ? Outcome::Error : equal ? Outcome::Holds : Outcome::Fails;
}

// Equal sets may hold 1 and True, 0.0 and -0.0: each element is compared with the one that the other set holds in its
// place.
static Outcome same_set(PyObject* a, PyObject* b, bool* ran_code) {
  Outcome equal = compare(a, b);
  if (equal != Outcome::Holds) return equal;
  Ref held = Ref::steal(PyDict_New());
  Ref left = Ref::steal(held ? PySequence_List(a) : nullptr);
  Ref right = Ref::steal(left ? PySequence_List(b) : nullptr);
  if (!right) return Outcome::Error;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(right.get()); i++) {
    PyObject* element = PyList_GET_ITEM(right.get(), i);
    if (PyDict_SetItem(held.get(), element, element) < 0) return Outcome::Error;
  }
  for (Py_ssize_t i = 0; equal == Outcome::Holds && i < PyList_GET_SIZE(left.get()); i++) {
    PyObject* element = PyList_GET_ITEM(left.get(), i);
    PyObject* other = PyDict_GetItemWithError(held.get(), element);
    if (other)
      equal = same_leaf(element, other, ran_code);
    else
      equal = PyErr_Occurred() ? Outcome::Error : Outcome::Fails;
  }
  return equal;
}

// Ranges of equal numbers may have been asked for in other words.
static Outcome same_range(PyObject* a, PyObject* b, bool* ran_code) {
  for (const char* name : {"start", "stop", "step"}) {
    // Safe: both are exact ranges, whose fields never change.
    Ref x = Ref::steal(PyObject_GetAttrString(a, name));
    Ref y = Ref::steal(x ? PyObject_GetAttrString(b, name) : nullptr);
    Outcome same = y ? same_leaf(x.get(), y.get(), ran_code) : Outcome::Error;
    if (same != Outcome::Holds) return same;
  }
  return Outcome::Holds;
}

Outcome same_leaf(PyObject* a, PyObject* b, bool* ran_code) {
  if (a == b) return Outcome::Holds;
  PyTypeObject* type = Py_TYPE(a);
  if (type != Py_TYPE(b)) return Outcome::Fails;
  if (type == &PyFloat_Type)
    return same_double(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b)) ? Outcome::Holds : Outcome::Fails;
  if (type == &PyComplex_Type) {
    Py_complex x = ((PyComplexObject*)a)->cval, y = ((PyComplexObject*)b)->cval;
    return same_double(x.real, y.real) && same_double(x.imag, y.imag) ? Outcome::Holds : Outcome::Fails;
  }
  if (type == &PyTuple_Type) {
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return Outcome::Fails;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
      Outcome same = same_leaf(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i), ran_code);
      if (same != Outcome::Holds) return same;
    }
    return Outcome::Holds;
  }
  if (type == &PySlice_Type) {
    PySliceObject *x = (PySliceObject*)a, *y = (PySliceObject*)b;
    PyObject* pairs[][2] = {{x->start, y->start}, {x->stop, y->stop}, {x->step, y->step}};
    for (auto& pair : pairs) {
      Outcome same = same_leaf(pair[0], pair[1], ran_code);
      if (same != Outcome::Holds) return same;
    }
    return Outcome::Holds;
  }
  if (type == &PyRange_Type) return same_range(a, b, ran_code);
  if (is_simple(type)) return compare(a, b);
  *ran_code = true;
  if (type == &PySet_Type || type == &PyFrozenSet_Type) return same_set(a, b, ran_code);
  return compare(a, b);
}

bool init_leaves() {
  if (!simple_types.empty()) return true;
  simple_types = {&PyLong_Type,    &PyUnicode_Type,      &PyBool_Type,
                  &PyFloat_Type,   Py_TYPE(Py_None),     &PyBytes_Type,
                  &PyComplex_Type, Py_TYPE(Py_Ellipsis), Py_TYPE(Py_NotImplemented),
                  &PyRange_Type,   &PyCode_Type};
  Ref torch = Ref::steal(PyImport_ImportModule("torch"));
  if (!torch) return false;
  for (const char* name : {"dtype", "device", "layout", "memory_format"}) {
    // Safe: once, when framelift is loaded.
    PyObject* type = PyObject_GetAttrString(torch.get(), name);
    if (!type) return false;
    simple_types.push_back((PyTypeObject*)type);  // kept for the life of the process
  }
  return true;
}

}  // namespace framelift
