// What the core believes of structs that no public header promises, checked when it is loaded: against the CPython and
// the torch that run, which may be other releases than those it was built with.
#pragma once
#include <Python.h>

namespace framelift {

// One layout, declared at namespace scope by the file that knows it: what it is, and whether it is as believed.
struct LayoutCheck {
  LayoutCheck(const char* what, const char* file, bool (*holds)());
  const char *what, *file;
  bool (*holds)();
};

// LAYOUTS: (what, file of csrc, whether it is as believed), ...
bool init_layouts(PyObject* module);

}  // namespace framelift
