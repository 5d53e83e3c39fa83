// Whether an object has attributes of its own, as one or two words show where that is certain.  As CPython lays managed
// dictionaries out.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace framelift {

// True: it has none.  False: it may have some.
inline bool surely_without_attributes(PyObject* object) {
  if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return false;
#if PY_VERSION_HEX >= 0x030d0000
  if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_INLINE_VALUES) return false;
#elif PY_VERSION_HEX < 0x030c0000
  if (((void**)object)[-4]) return false;  // values that are in no dictionary yet
#endif
  uintptr_t dict = ((uintptr_t*)object)[-3];  // in 3.12 an odd number: values that are in no dictionary yet
  return !dict || (!(dict & 1) && ((PyDictObject*)dict)->ma_used == 0);
}

// The dictionary of its attributes; NULL where there is none yet, or where words of memory cannot tell.
inline PyObject* attributes_at(PyObject* object) {
  if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return nullptr;
#if PY_VERSION_HEX < 0x030c0000
  if (((void**)object)[-4]) return nullptr;
#endif
  uintptr_t dict = ((uintptr_t*)object)[-3];
  return dict & 1 ? nullptr : (PyObject*)dict;
}

}  // namespace framelift
