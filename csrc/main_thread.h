// What the interpreter keeps: which thread runs signal handlers, how many objects were made since the last collection,
// and versions of dictionaries.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#undef HAVE_STD_ATOMIC  // C atomics are not C++; those of the compiler have the same size
#undef _PyGC_FINALIZED  // a macro here, a function there
#define Py_BUILD_CORE 1
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE

namespace framelift {

inline unsigned long& main_thread_ident() { return _PyRuntime.main_thread; }

// Objects that may be in a cycle; those that ended are taken off.
inline int& young_objects() {
#if PY_VERSION_HEX >= 0x030e0000
  return PyInterpreterState_Get()->gc.young.count;
#else
  return PyInterpreterState_Get()->gc.generations[0].count;
#endif
}

#if PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000
// A version that no dictionary had before, as CPython itself makes them.  The bits below belong to watchers.
constexpr uint64_t kDictVersionStep = (uint64_t)1 << (DICT_MAX_WATCHERS + DICT_WATCHED_MUTATION_BITS);
inline uint64_t next_dict_version() { return PyInterpreterState_Get()->dict_state.global_version += kDictVersionStep; }
#endif

}  // namespace framelift
