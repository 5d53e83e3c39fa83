// Ranges for torch.profiler: what framelift does at a call.  Nothing but one look at a thread-local when nobody profiles.
#pragma once
#include <ATen/record_function.h>
#include <Python.h>

#include <cstring>
#include <optional>
#include <string>

namespace framelift {

// "framelift <what>: <name>" while it lives; the name is `info.name`, asked for only when somebody profiles.  A run is also
// split into its parts, by `info.ranges` (run/ranges.py): calling it begins them, and gives what ends them.
class Range {
 public:
  Range(const char* what, PyObject* info) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (C10_UNLIKELY(callbacks.has_value())) start(std::move(*callbacks), what, info);
  }
  ~Range() {
    if (C10_UNLIKELY(ending_ != nullptr)) end();
  }

 private:
  void start(at::StepCallbacks&& callbacks, const char* what, PyObject* info) {
    PyObject* name = PyObject_GetAttrString(info, "name");
    const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
    std::string label = std::string("framelift ") + what + (text ? std::string(": ") + text : "");
    PyErr_Clear();
    Py_XDECREF(name);
    record_.emplace(std::move(callbacks));
    record_->before(std::move(label));
    if (strcmp(what, "run") != 0) return;
    PyObject* ranges = PyObject_GetAttrString(info, "ranges");
    if (ranges && ranges != Py_None) ending_ = PyObject_CallNoArgs(ranges);
    Py_XDECREF(ranges);
    PyErr_Clear();
  }
  void end() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);  // the run may have raised
    PyObject* done = ending_ == Py_None ? nullptr : PyObject_CallNoArgs(ending_);
    PyErr_Clear();
    Py_XDECREF(done);
    Py_CLEAR(ending_);
    PyErr_Restore(type, value, traceback);
  }
  std::optional<at::RecordFunction> record_;
  PyObject* ending_ = nullptr;
};

}  // namespace framelift
