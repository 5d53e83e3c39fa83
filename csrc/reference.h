// Owned references as types: Ref for an object, SavedError for an exception set aside.  They let go of what they hold
// on every path, also when a C++ exception passes through.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <utility>

namespace framelift {

// One owned reference, or none.
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    PyObject* before = std::exchange(object_, other.release());
    Py_XDECREF(before);  // last: it may run any code
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  // Takes over a reference that the caller owns: what most functions of CPython return.  NULL is none.
  static Ref steal(PyObject* owned) { return Ref(owned); }
  // One more reference to an object that somebody else owns.  NULL is none.
  static Ref new_ref(PyObject* borrowed) { return Ref(Py_XNewRef(borrowed)); }

  PyObject* get() const { return object_; }
  // The reference is the caller's from now on.
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }
  void reset() { *this = Ref(); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Ref(PyObject* owned) : object_(owned) {}
  PyObject* object_ = nullptr;
};

// Takes the exception that is set aside.  It is dropped at the end unless it was put back.
class SavedError {
 public:
  SavedError() { PyErr_Fetch(&type_, &value_, &traceback_); }
  SavedError(const SavedError&) = delete;
  ~SavedError() {
    Py_XDECREF(type_);
    Py_XDECREF(value_);
    Py_XDECREF(traceback_);
  }
  void normalize() { PyErr_NormalizeException(&type_, &value_, &traceback_); }
  // What is set at this moment is replaced, by nothing where nothing was saved.
  void restore() {
    PyErr_Restore(std::exchange(type_, nullptr), std::exchange(value_, nullptr), std::exchange(traceback_, nullptr));
  }
  PyObject* type() const { return type_; }
  PyObject* value() const { return value_; }
  PyObject* traceback() const { return traceback_; }

 private:
  PyObject *type_, *value_, *traceback_;
};

// Puts back at its end the exception that was set at its start, whatever was raised in between.
struct KeepError {
  SavedError saved;
  ~KeepError() { saved.restore(); }
};

// A tuple of new references; unbound locals are NULL, and stay so.
inline Ref tuple_of(PyObject* const* items, Py_ssize_t n) {
  Ref tuple = Ref::steal(PyTuple_New(n));
  for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple.get(), i, Py_XNewRef(items[i]));
  return tuple;
}

// A tuple of the objects that make(0), make(1), ... return as Ref.  No tuple, and an exception set, where one of them
// is none.
template <typename Make>
Ref make_tuple(Py_ssize_t n, Make make) {
  Ref tuple = Ref::steal(PyTuple_New(n));
  for (Py_ssize_t i = 0; tuple && i < n; i++) {
    Ref item = make(i);
    if (!item) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), i, item.release());
  }
  return tuple;
}

// An interned text that lives as long as the process: for names, when the core is loaded.
inline PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// Whether a text is this interned one.
inline bool is_text(PyObject* text, PyObject* interned) {
  return text == interned || (!PyUnicode_CHECK_INTERNED(text) && PyUnicode_Compare(text, interned) == 0);
}

// Appends a new object.  False with an exception set, also where making the object or the list failed.
inline bool append(const Ref& list, Ref item) { return list && item && PyList_Append(list.get(), item.get()) == 0; }

}  // namespace framelift
