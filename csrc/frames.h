// The CPython structs that guard programs look at: dict and type versions, instance dicts, member slots.
// One place per fact that differs between CPython versions.  Frames themselves are in frame_access.h.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

namespace framelift {

// ---- dictionaries ----

// Versions are unique over all dictionaries of the interpreter: an equal version means an untouched dictionary.
#if PY_VERSION_HEX >= 0x030e0000
// CPython 3.14 has no versions.  A dictionary gets one from us when it is first wanted, in the bits beside its watchers
// that CPython leaves free, and our watcher takes it away again before the dictionary changes (guard_watches.cpp).
constexpr int kVersionShift = 12;
inline uint64_t& version_word_of(PyObject* dict) { return ((PyDictObject*)dict)->_ma_watcher_tag; }
#else
inline uint64_t& version_word_of(PyObject* dict) { return ((PyDictObject*)dict)->ma_version_tag; }
#endif
inline const void* dict_version_at(PyObject* dict) { return &version_word_of(dict); }
#if PY_VERSION_HEX >= 0x030d0000
// Of a dictionary that is watched from then on; zero where CPython does not tell us of all its changes.
uint64_t watched_dict_version(PyObject* dict);
// Whether our watcher hears of attributes that are set on an instance which shares its values with its dictionary.
bool hears_of_attributes();
// Whether its values lie in an instance: the third byte of them, CPython's `embedded`.
inline bool shares_values(PyObject* dict) {
  const uint8_t* values = (const uint8_t*)((PyDictObject*)dict)->ma_values;
  return values && values[2];
}
#endif

inline uint64_t dict_version(PyObject* dict) {
#if PY_VERSION_HEX >= 0x030e0000
  if (!(version_word_of(dict) >> kVersionShift)) return watched_dict_version(dict);
#elif PY_VERSION_HEX >= 0x030d0000
  if (shares_values(dict)) return watched_dict_version(dict);  // an attribute that is set leaves the version alone
#endif
  return version_word_of(dict);
}

// The first fields of a dict's keys object, the same from 3.11 to 3.14.
struct DictKeysHead {
  Py_ssize_t references;
  uint8_t log2_size, log2_index_bytes, kind;  // kind 0: keys of any type; otherwise exact strings only
};

// Such keys compare without running Python code.
inline bool dict_has_only_strings(PyObject* dict) { return ((DictKeysHead*)((PyDictObject*)dict)->ma_keys)->kind != 0; }

// The number that an OrderedDict changes together with its order, the same place from 3.11 to 3.14.
inline const uint64_t* order_number_at(PyObject* ordered) {
  return (const uint64_t*)((const char*)ordered + sizeof(PyDictObject) + 5 * sizeof(void*));
}

// Allocating may start the collector, and with it any finaliser.  Nothing runs while this lives.
struct CollectorPause {
  int was = PyGC_Disable();
  ~CollectorPause() {
    if (was) PyGC_Enable();
  }
};

#if PY_VERSION_HEX >= 0x030d0000
extern "C" PyAPI_FUNC(int) _PyObject_SetManagedDict(PyObject*, PyObject*);  // exported, not declared
#endif

// `object.__dict__ = dict`, past any code of its class.  False with an exception set.
inline bool set_instance_dict(PyObject* object, PyObject* dict) {
#if PY_VERSION_HEX >= 0x030d0000
  // CPython 3.13's PyObject_GenericSetDict leaves the values that lie in the instance as they are.
  if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) return _PyObject_SetManagedDict(object, dict) == 0;
#endif
  return PyObject_GenericSetDict(object, dict, nullptr) == 0;
}

// Where the instance keeps its dictionary, which is created if it was not yet; NULL for objects without one.  In
// CPython 3.13.0, which tells nobody of attributes that are set, the dictionary no longer shares the instance's values.
inline PyObject** instance_dict_at(PyObject* object) {
  CollectorPause pause;
  PyObject** slot = _PyObject_GetDictPtr(object);
  if (slot && !*slot) {
    PyObject* made = PyObject_GenericGetDict(object, nullptr);
    if (!made) PyErr_Clear();
    Py_XDECREF(made);
    if (!*slot) return nullptr;
  }
#if PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000
  if (slot && PyDict_Check(*slot) && shares_values(*slot) && !hears_of_attributes() &&
      !set_instance_dict(object, *slot))
    PyErr_Clear();
#endif
  return slot;
}

// ---- types ----

// Zero: the type has no version.  Versions are unique over all types and never used again.
inline unsigned type_version(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030d0000
  if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
  return type->tp_version_tag;
}

// The version and the bytes up to the next field: equal words are equal versions.
inline const void* type_version_at(PyTypeObject* type) { return &type->tp_version_tag; }
inline uint64_t type_version_word(PyTypeObject* type) { return *(const uint64_t*)type_version_at(type); }

// Whether a change of a type takes its version away, so that a version needs no look at the flags.
bool type_version_is_told_alone();

// CPython gives a type its version at the first attribute look-up.
inline unsigned ensure_type_version(PyTypeObject* type, PyObject* any_name) {
  if (!type_version(type)) _PyType_Lookup(type, any_name);
  return type_version(type);
}

// The class of a slot that is bound to an object, `(1).__add__`.  CPython 3.13 does not export it.
inline PyTypeObject* method_wrapper_type() {
  static PyTypeObject* const found = Py_TYPE(PyObject_GetAttrString(Py_None, "__repr__"));
  return found;
}
// What CPython keeps to itself: such a slot, and what `super()` gives.
struct MethodWrapper {
  PyObject_HEAD
  PyObject *slot, *receiver;
};
struct SuperObject {
  PyObject_HEAD
  PyTypeObject* cls;
  PyObject* receiver;
  PyTypeObject* start;  // whose order is followed, from behind `cls` on
};
inline bool is_heap_type(PyTypeObject* type) { return type->tp_flags & Py_TPFLAGS_HEAPTYPE; }
// Whether it is a class that code of Python's has put a `__del__` on, or on one of its bases.
inline bool has_finaliser(PyObject* cls) {
  static PyObject* const name = PyUnicode_InternFromString("__del__");
  return PyType_Check(cls) && is_heap_type((PyTypeObject*)cls) && ((PyTypeObject*)cls)->tp_finalize &&
         _PyType_Lookup((PyTypeObject*)cls, name);
}

// Whether `object.__class__ = ...` can change the type of an instance.
inline bool type_is_assignable(PyTypeObject* type) {
  return !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) || PyType_IsSubtype(type, &PyModule_Type);
}

// Static types live as long as the process: their addresses are never used again.
inline bool type_is_permanent(PyTypeObject* type) { return !is_heap_type(type); }

// ---- member descriptors (`__slots__`, and C structs' object members) ----

// The address a member descriptor reads on `object`, or NULL when it is not a plain object member of that object.
inline PyObject** member_at(PyObject* descriptor, PyObject* object) {
  constexpr int kObject = 6, kObjectOrError = 16;  // T_OBJECT, T_OBJECT_EX; their names differ between versions
  if (!descriptor || Py_TYPE(descriptor) != &PyMemberDescr_Type) return nullptr;
  PyMemberDef* member = ((PyMemberDescrObject*)descriptor)->d_member;
  if (member->type != kObject && member->type != kObjectOrError) return nullptr;
  if (!PyObject_TypeCheck(object, PyDescr_TYPE(descriptor))) return nullptr;
  return (PyObject**)((char*)object + member->offset);
}

}  // namespace framelift
