// Attributes that an instance keeps without a dictionary, as CPython 3.11 and 3.12 lay them out: an array of values in
// the order of the names that all instances of the class share, and before it, in bytes, the order in which they were
// set.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstring>

namespace framelift {

// The values of an object without a dictionary; NULL where it has one, or where they lie elsewhere.
inline PyObject** inline_values(PyObject* object) {
  if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return nullptr;
#if PY_VERSION_HEX >= 0x030d0000
  return nullptr;
#elif PY_VERSION_HEX >= 0x030c0000
  uintptr_t word = ((uintptr_t*)object)[-3];
  return word & 1 ? (PyObject**)(word + 1) : nullptr;
#else
  return ((PyObject***)object)[-4];
#endif
}

// In which places a fresh object's attributes are, in the order they were set.  Places are the class's for good, and
// attributes may be put there directly while the class has the version it had.
struct InlinePlaces {
  static constexpr size_t kMost = 30;  // as CPython's own
  unsigned version = 0;                // of the class; 0: not known
  uint8_t backwards[kMost];            // as they lie in memory: the last one first

  static uint8_t& count_of(PyObject** values) { return ((uint8_t*)values)[-2]; }

  // After `count` attributes were set one by one.
  void note(PyObject* object, unsigned of_version, size_t count) {
    PyObject** values = inline_values(object);
    version = values && count <= kMost && count_of(values) == count ? of_version : 0;
    if (version) memcpy(backwards, (uint8_t*)values - 2 - count, count);
  }

  void put(PyObject** values, PyObject* const* attributes, size_t count) const {
    for (size_t i = 0; i < count; i++) values[backwards[count - 1 - i]] = Py_NewRef(attributes[i]);
    memcpy((uint8_t*)values - 2 - count, backwards, count);
    count_of(values) = (uint8_t)count;
  }
};

}  // namespace framelift
