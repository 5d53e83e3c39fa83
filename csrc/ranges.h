// Ranges for torch.profiler: what framelift does at a call.  Nothing but one look at a thread-local when nobody
// profiles.
#pragma once
#include <ATen/record_function.h>
#include <Python.h>

#include <cstring>
#include <optional>
#include <string>

#include "reference.h"

namespace framelift {

// Whether ranges have the names that TorchDynamo gives its own: tools look for them (the drop-in sets it).
inline bool ranges_have_torch_names = false;

// "framelift <what>: <name>" while it lives; the name is `info.name`, asked for only when somebody profiles.  A run is
// also split into its parts, by `info.ranges` (capture/around/ranges.py): calling it begins them, and gives what ends
// them.
class Range {
 public:
  Range(const char* what, PyObject* info) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (C10_UNLIKELY(callbacks.has_value())) start(std::move(*callbacks), what, info);
  }
  ~Range() {
    if (C10_UNLIKELY((bool)ending_)) end();
  }

 private:
  void start(at::StepCallbacks&& callbacks, const char* what, PyObject* info) {
    KeepError keep;
    // Safe, here and below: the record of a capture is framelift's own object.
    Ref name = Ref::steal(PyObject_GetAttrString(info, "name"));
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    std::string label = std::string("framelift ") + what + (text ? std::string(": ") + text : "");
    if (ranges_have_torch_names) label = torch_name(what, info);
    PyErr_Clear();
    record_.emplace(std::move(callbacks));
    record_->before(std::move(label));
    if (strcmp(what, "run") != 0) return;
    Ref ranges = Ref::steal(PyObject_GetAttrString(info, "ranges"));
    if (ranges && ranges.get() != Py_None) ending_ = Ref::steal(PyObject_CallNoArgs(ranges.get()));
  }
  static std::string torch_name(const char* what, PyObject* info) {
    if (strcmp(what, "run") != 0) return "TorchDynamo Cache Lookup";
    Ref id = Ref::steal(PyObject_GetAttrString(info, "compile_id"));
    Ref shown = Ref::steal(id ? PyObject_Str(id.get()) : nullptr);
    const char* text = shown ? PyUnicode_AsUTF8(shown.get()) : nullptr;
    return std::string("Torch-Compiled Region: ") + (text ? text : "");
  }
  void end() {
    KeepError keep;  // the run may have raised
    if (ending_.get() != Py_None) Ref::steal(PyObject_CallNoArgs(ending_.get()));
    ending_.reset();
  }
  std::optional<at::RecordFunction> record_;
  Ref ending_;
};

}  // namespace framelift
