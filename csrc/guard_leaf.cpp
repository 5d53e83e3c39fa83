// Immutable leaves: which values they are, and when two of them are the same.  The Python twins are in
// guards/equality.py and guards/kinds.py.
#include <cstring>

#include "guard.h"

namespace framelift {

static std::vector<PyTypeObject*> simple_types;  // immutable, compared without running Python code

static PyTypeObject* size_type;  // torch.Size: a tuple

static bool is_simple(PyTypeObject* type) {
  for (PyTypeObject* known : simple_types)
    if (known == type) return true;
  return false;
}

bool simple_leaf(PyObject* value) { return is_simple(Py_TYPE(value)); }

bool immutable_leaf(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (is_simple(type)) return true;
  if (type == &PyTuple_Type || type == size_type) {
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

// A NaN has a sign and bits of its own, and zeros have signs.
static bool same_double(double a, double b) { return !std::memcmp(&a, &b, sizeof a); }

static Outcome compare(PyObject* a, PyObject* b) {
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  return equal < 0 ? Outcome::Error : equal ? Outcome::Holds : Outcome::Fails;
}

static bool is_removed(const setentry& entry) { return entry.key && entry.hash == -1; }

// How a set iterates, and how sets made of it do, goes by where its elements lie.
static Outcome same_set(PySetObject* a, PySetObject* b, bool* ran_code) {
  if (a->mask != b->mask || a->used != b->used || a->finger != b->finger) return Outcome::Fails;
  Ref left = Ref::new_ref((PyObject*)a), right = Ref::new_ref((PyObject*)b);
  for (Py_ssize_t i = 0; i <= a->mask && i <= b->mask; i++) {
    setentry &x = a->table[i], &y = b->table[i];
    if (!x.key != !y.key || is_removed(x) != is_removed(y)) return Outcome::Fails;
    if (!x.key || is_removed(x)) continue;
    Ref one = Ref::new_ref(x.key), other = Ref::new_ref(y.key);
    Outcome same = indistinguishable(one.get(), other.get(), ran_code);
    if (same != Outcome::Holds) return same;
  }
  return Outcome::Holds;
}

// Ranges of equal numbers may have been asked for in other words.
static Outcome same_range(PyObject* a, PyObject* b, bool* ran_code) {
  for (const char* name : {"start", "stop", "step"}) {
    // Safe: both are exact ranges, whose fields never change.
    Ref x = Ref::steal(PyObject_GetAttrString(a, name));
    Ref y = Ref::steal(x ? PyObject_GetAttrString(b, name) : nullptr);
    Outcome same = y ? indistinguishable(x.get(), y.get(), ran_code) : Outcome::Error;
    if (same != Outcome::Holds) return same;
  }
  return Outcome::Holds;
}

Outcome indistinguishable(PyObject* a, PyObject* b, bool* ran_code) {
  if (a == b) return Outcome::Holds;
  PyTypeObject* type = Py_TYPE(a);
  if (type != Py_TYPE(b)) return Outcome::Fails;
  if (type == &PyFloat_Type)
    return same_double(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b)) ? Outcome::Holds : Outcome::Fails;
  if (type == &PyComplex_Type) {
    Py_complex x = ((PyComplexObject*)a)->cval, y = ((PyComplexObject*)b)->cval;
    return same_double(x.real, y.real) && same_double(x.imag, y.imag) ? Outcome::Holds : Outcome::Fails;
  }
  if (type == &PyTuple_Type || type == size_type) {
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return Outcome::Fails;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
      Outcome same = indistinguishable(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i), ran_code);
      if (same != Outcome::Holds) return same;
    }
    return Outcome::Holds;
  }
  if (type == &PySlice_Type) {
    PySliceObject *x = (PySliceObject*)a, *y = (PySliceObject*)b;
    PyObject* pairs[][2] = {{x->start, y->start}, {x->stop, y->stop}, {x->step, y->step}};
    for (auto& pair : pairs) {
      Outcome same = indistinguishable(pair[0], pair[1], ran_code);
      if (same != Outcome::Holds) return same;
    }
    return Outcome::Holds;
  }
  if (type == &PyRange_Type) return same_range(a, b, ran_code);
  if (type == &PySet_Type || type == &PyFrozenSet_Type) return same_set((PySetObject*)a, (PySetObject*)b, ran_code);
  if (type == &PyCode_Type) return Outcome::Fails;  // CPython's comparison leaves out the names of file and function
  if (!is_simple(type)) *ran_code = true;
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
  // Safe: likewise.
  size_type = (PyTypeObject*)PyObject_GetAttrString(torch.get(), "Size");
  if (!size_type) return false;
  return true;
}

}  // namespace framelift
