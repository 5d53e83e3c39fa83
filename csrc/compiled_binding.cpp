// See compiled_binding.h.  Error messages are CPython's business: any misfit here just says "not bound".
#include "compiled_binding.h"

#include <cstring>

namespace framelift {

Binding::Binding(PyObject* function)
    : function_((PyFunctionObject*)function), code_((PyCodeObject*)function_->func_code) {
  Py_INCREF(code_);
  positional_ = code_->co_argcount;
  named_ = positional_ + code_->co_kwonlyargcount;
  bound_ = named_ + !!(code_->co_flags & CO_VARARGS) + !!(code_->co_flags & CO_VARKEYWORDS);
  count_ = bound_ + !!(code_->co_flags & CO_NESTED);
  values_ = count_ <= kInline ? small_ : (PyObject**)PyMem_Malloc((size_t)count_ * sizeof(PyObject*));
  if (!values_) return;
  memset(values_, 0, (size_t)count_ * sizeof(PyObject*));
  if (count_ > bound_) values_[bound_] = Py_NewRef(function);
}

Binding::~Binding() {
  for (Py_ssize_t i = 0; values_ && i < count_; i++) Py_XDECREF(values_[i]);
  if (values_ != small_) PyMem_Free(values_);
  Py_DECREF(code_);
}

bool Binding::bind(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (!values_) return false;
  bool bound = bind_positional(args, nargs) && bind_keywords(args + nargs, kwnames) && fill_defaults();
  if (!bound) PyErr_Clear();
  return bound;
}

bool Binding::bind_positional(PyObject* const* args, Py_ssize_t nargs) {
  Py_ssize_t taken = nargs < positional_ ? nargs : positional_;
  for (Py_ssize_t i = 0; i < taken; i++) values_[i] = Py_NewRef(args[i]);
  if (!(code_->co_flags & CO_VARARGS)) return nargs <= positional_;
  PyObject* rest = PyTuple_New(nargs - taken);
  if (!rest) return false;
  for (Py_ssize_t i = taken; i < nargs; i++) PyTuple_SET_ITEM(rest, i - taken, Py_NewRef(args[i]));
  values_[named_] = rest;
  return true;
}

// The parameter of this name that may be given by keyword, or -1.
Py_ssize_t Binding::find(PyObject* name) const {
  PyObject* names = code_->co_localsplusnames;
  for (Py_ssize_t i = code_->co_posonlyargcount; i < named_; i++)
    if (PyTuple_GET_ITEM(names, i) == name) return i;
  for (Py_ssize_t i = code_->co_posonlyargcount; i < named_; i++)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0) return i;
  return -1;
}

bool Binding::bind_keywords(PyObject* const* values, PyObject* kwnames) {
  PyObject* extra = nullptr;
  if (code_->co_flags & CO_VARKEYWORDS) {
    extra = values_[bound_ - 1] = PyDict_New();
    if (!extra) return false;
  }
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, i);
    if (!PyUnicode_Check(name)) return false;
    Py_ssize_t at = find(name);
    if (at >= 0) {
      if (values_[at]) return false;
      values_[at] = Py_NewRef(values[i]);
    } else if (!extra || PyDict_SetItem(extra, name, values[i]) < 0) {
      return false;
    }
  }
  return true;
}

bool Binding::fill_defaults() {
  PyObject* defaults = function_->func_defaults;
  Py_ssize_t first = positional_ - (defaults ? PyTuple_GET_SIZE(defaults) : 0);
  for (Py_ssize_t i = 0; i < positional_; i++) {
    if (values_[i]) continue;
    if (i < first) return false;
    values_[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, i - first));
  }
  for (Py_ssize_t i = positional_; i < named_; i++) {
    if (values_[i]) continue;
    PyObject* name = PyTuple_GET_ITEM(code_->co_localsplusnames, i);
    PyObject* value = function_->func_kwdefaults ? PyDict_GetItemWithError(function_->func_kwdefaults, name) : nullptr;
    if (!value) return false;
    values_[i] = Py_NewRef(value);
  }
  return true;
}

}  // namespace framelift
