// Fields of CPython's objects that change only where we hear of it: the class and the dictionary of an object, which
// are set through `__class__` and `__dict__`, and from 3.12 on a function's code and defaults.  While none was set
// anywhere, nobody need look at the fields of an object that is known to be the same one.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <unordered_set>

namespace framelift {

// How often such a field was set, of any object, since we listen.
uint64_t fields_set();
// Listen, from the first call on.  False where that cannot be done.
bool hears_of_fields();
// The addresses of such fields of an object that is alive.  Its dictionary, where it has one, is one of `unchanged`:
// CPython may take another away from its object unheard.
void add_told(PyObject* object, const std::unordered_set<const void*>& unchanged, std::unordered_set<const void*>& to);

}  // namespace framelift
