// Which thread runs signal handlers, as the interpreter keeps it.
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

}  // namespace framelift
