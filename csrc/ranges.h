// Ranges for torch.profiler: what framelift does at a call.  Nothing but one look at a thread-local when nobody profiles.
#pragma once
#include <ATen/record_function.h>
#include <Python.h>

#include <optional>
#include <string>

namespace framelift {

// "framelift <what>: <name>" while it lives; the name is `info.name`, asked for only when somebody profiles.
class Range {
 public:
  Range(const char* what, PyObject* info) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (C10_UNLIKELY(callbacks.has_value())) start(std::move(*callbacks), what, info);
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
  }
  std::optional<at::RecordFunction> record_;
};

}  // namespace framelift
