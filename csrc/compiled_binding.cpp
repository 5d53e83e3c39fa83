// See compiled_binding.h.  Error messages are CPython's business: any misfit here just says "not bound".
#include "compiled_binding.h"

#include <cstring>

#include "reference.h"

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

// A function that takes the bound arguments by name and passes all others on, as the calls of modules do: tuple and
// dictionary are copied, and nothing is taken apart.
bool Binding::bind_whole(PyObject* bound, PyObject* args, PyObject* keywords) {
  constexpr int kPassesOn = CO_VARARGS | CO_VARKEYWORDS;
  if (!values_ || (code_->co_flags & kPassesOn) != kPassesOn || named_ != positional_ ||
      PyTuple_GET_SIZE(bound) != positional_ || !PyTuple_CheckExact(args))
    return false;
  if (keywords && !names_no_parameter(keywords)) return false;
  for (Py_ssize_t i = 0; i < positional_; i++) values_[i] = Py_NewRef(PyTuple_GET_ITEM(bound, i));
  values_[named_] = tuple_of(&PyTuple_GET_ITEM(args, 0), PyTuple_GET_SIZE(args)).release();
  values_[named_ + 1] = keywords ? PyDict_Copy(keywords) : PyDict_New();
  if (values_[named_] && values_[named_ + 1]) return true;
  PyErr_Clear();
  return false;
}

// Whether these are keywords, and none is that of a parameter.
bool Binding::names_no_parameter(PyObject* keywords) const {
  if (!PyDict_CheckExact(keywords) || !dict_has_only_strings(keywords)) return false;
  PyObject* name;
  for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &name, nullptr);)
    if (find(name) >= 0) return false;
  return true;
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
  if (PyUnicode_CheckExact(name) && PyUnicode_CHECK_INTERNED(name)) return -1;  // as all names of code are
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
