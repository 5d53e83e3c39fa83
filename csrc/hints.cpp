// The look of a call, and the table from looks to entries.
#include "hints.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

namespace framelift {

static constexpr size_t kHints = 1024;
static constexpr Py_ssize_t kItems = 16;  // of a container that are looked at
static constexpr int kDepth = 2;          // containers within containers: keyword arguments, and what they hold

static inline void mix(uint64_t& look, uint64_t word) {
  look = (look ^ word) * 0x9E3779B97F4A7C15ull;
  look ^= look >> 29;
}

static void mix_tensor(uint64_t& look, PyObject* value) {
  const c10::TensorImpl* impl = THPVariable_Unpack(value).unsafeGetTensorImpl();
  mix(look, impl->key_set().raw_repr());
  if (!impl->dtype_initialized() || impl->has_symbolic_sizes_strides()) return;
  mix(look, (uint64_t)impl->dtype().toScalarType());
  if (impl->key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::NestedTensor})))
    return;  // a size may run code
  for (int64_t size : impl->sizes()) mix(look, (uint64_t)size);
}

static void mix_value(uint64_t& look, PyObject* value, int depth) {
  PyTypeObject* type = Py_TYPE(value);
  mix(look, (uint64_t)type);
  if (type == (PyTypeObject*)THPVariableClass) {
    mix_tensor(look, value);
  } else if (type == &PyLong_Type) {
    int overflow;
    mix(look, (uint64_t)PyLong_AsLongLongAndOverflow(value, &overflow));
  } else if (type == &PyFloat_Type) {
    // Numbers that change at every call are symbolic: their values would only scatter the looks.
  } else if (type == &PyTuple_Type || type == &PyList_Type) {
    Py_ssize_t size = Py_SIZE(value);
    mix(look, (uint64_t)size);
    PyObject** items = type == &PyTuple_Type ? ((PyTupleObject*)value)->ob_item : ((PyListObject*)value)->ob_item;
    for (Py_ssize_t i = 0; depth && i < size && i < kItems; i++) mix_value(look, items[i], depth - 1);
  } else if (type == &PyDict_Type) {
    mix(look, (uint64_t)PyDict_GET_SIZE(value));
    PyObject *key, *item;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; depth && i < kItems && PyDict_Next(value, &at, &key, &item); i++) {
      mix(look, (uint64_t)key);
      mix_value(look, item, depth - 1);
    }
  } else if (type == &PyUnicode_Type || type == &PyBool_Type || type == &PyType_Type || type == &PyFunction_Type) {
    mix(look, (uint64_t)value);
  }
}

uint64_t look_of(PyObject* const* locals, Py_ssize_t n) {
  uint64_t look = c10::GradMode::is_enabled() ? 1 : 2;
  for (Py_ssize_t i = 0; i < n && i < kItems; i++) {
    if (!locals[i]) continue;
    if (i == 0 && Py_TYPE(locals[0]) != (PyTypeObject*)THPVariableClass && !PyLong_CheckExact(locals[0]))
      mix(look, (uint64_t)locals[0]);
    mix_value(look, locals[i], kDepth);
  }
  return look;
}

Hint& hint_for(const void* entries, uint64_t look) {
  static Hint hints[kHints];
  return hints[(((uint64_t)entries >> 4) ^ look) % kHints];
}

}  // namespace framelift
