// Binding a call's arguments to a function's parameters, as CPython does when it makes the frame.
#pragma once
#include "frames.h"

namespace framelift {

// The parameters' values in the order of the frame's locals: positional, keyword-only, *args, **kwargs.  A nested
// function is one more local after them, as for frames that are captured by their code: several functions share one
// code, and guards on closures must reach the function at hand.
class Binding {
 public:
  explicit Binding(PyObject* function);
  ~Binding();
  Binding(const Binding&) = delete;
  // True when everything is bound.  False, without an exception, when CPython would raise its own TypeError or the
  // values could not be allocated: the caller then just calls the function.
  bool bind(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
  // The same for bound arguments and those of a call as CPython hands them over whole; the keywords may be NULL.  False
  // also where it is not plain to see: the caller then takes the other way.
  bool bind_whole(PyObject* bound, PyObject* args, PyObject* keywords);
  PyObject* const* locals() const { return values_; }
  Py_ssize_t count() const { return count_; }

 private:
  static constexpr Py_ssize_t kInline = 24;
  PyFunctionObject* function_;
  PyCodeObject* code_;                             // owned: the function may be given another while it is called
  Py_ssize_t positional_, named_, bound_, count_;  // bound_: without the function
  PyObject* small_[kInline];
  PyObject** values_;  // owned references; NULL: not bound yet

  bool bind_positional(PyObject* const* args, Py_ssize_t nargs);
  bool bind_keywords(PyObject* const* values, PyObject* kwnames);
  bool fill_defaults();
  Py_ssize_t find(PyObject* name) const;
  bool names_no_parameter(PyObject* keywords) const;
};

}  // namespace framelift
