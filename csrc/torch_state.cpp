// The torch state snapshot: taking it, comparing it with the present, and showing it.
#include "torch_state.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <string>

// Declared here because their header pulls in all of ATen.
namespace at::autocast {
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
TORCH_API bool is_autocast_enabled(at::DeviceType device_type);
TORCH_API bool is_autocast_cache_enabled();
}  // namespace at::autocast

namespace framelift {

struct AutocastDevice {
  at::DeviceType device;
  c10::DispatchKey key;  // excluded while autocast is off
};
static constexpr AutocastDevice kAutocast[TorchState::kAutocastDevices] = {
    {at::kCPU, c10::DispatchKey::AutocastCPU},   {at::kCUDA, c10::DispatchKey::AutocastCUDA},
    {at::kXPU, c10::DispatchKey::AutocastXPU},   {at::kMPS, c10::DispatchKey::AutocastMPS},
    {at::kMTIA, c10::DispatchKey::AutocastMTIA}, {at::kHPU, c10::DispatchKey::AutocastHPU},
    {at::kXLA, c10::DispatchKey::AutocastXLA},   {at::kPrivateUse1, c10::DispatchKey::AutocastPrivateUse1}};

struct Flag {
  const char* name;
  bool (*read)(const c10::AutogradState&, const at::Context&);
};
// In the order of the bits of TorchState::flags.
static const Flag kFlags[] = {
    {"grad mode", [](const c10::AutogradState& a, const at::Context&) { return a.get_grad_mode(); }},
    {"inference mode", [](const c10::AutogradState& a, const at::Context&) { return a.get_inference_mode(); }},
    {"forward-mode grad", [](const c10::AutogradState& a, const at::Context&) { return a.get_fw_grad_mode(); }},
    {"autocast cache", [](const c10::AutogradState&, const at::Context&) { return at::autocast::is_autocast_cache_enabled(); }},
    {"deterministic algorithms", [](const c10::AutogradState&, const at::Context& c) { return c.deterministicAlgorithms(); }},
    {"deterministic warn-only",
     [](const c10::AutogradState&, const at::Context& c) { return c.deterministicAlgorithmsWarnOnly(); }},
    {"deterministic fill",
     [](const c10::AutogradState&, const at::Context& c) { return c.deterministicFillUninitializedMemory(); }},
    {"cudnn", [](const c10::AutogradState&, const at::Context& c) { return c.userEnabledCuDNN(); }},
    {"cudnn deterministic", [](const c10::AutogradState&, const at::Context& c) { return c.deterministicCuDNN(); }},
    {"cudnn benchmark", [](const c10::AutogradState&, const at::Context& c) { return c.benchmarkCuDNN(); }},
    {"mkldnn", [](const c10::AutogradState&, const at::Context& c) { return c.userEnabledMkldnn(); }},
};

TorchState TorchState::now() {
  TorchState state;
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  state.included = keys.included_.raw_repr();
  state.excluded = keys.excluded_.raw_repr();
  for (int i = 0; i < kAutocastDevices; i++) state.autocast_dtype[i] = (int8_t)at::autocast::get_autocast_dtype(kAutocast[i].device);
  state.default_dtype = (int8_t)c10::get_default_dtype_as_scalartype();
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  const at::Context& context = at::globalContext();
  uint32_t bit = 1;
  for (const Flag& flag : kFlags) {
    if (flag.read(autograd, context)) state.flags |= bit;
    bit <<= 1;
  }
  static const bool cuda = at::Context::hasCUDA();
  if (cuda) {  // only there does the precision of float32 products change what kernels are generated
    state.precision[0] = (uint8_t)context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL);
    state.precision[1] = (uint8_t)context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV);
  }
  state.function_modes = (int32_t)at::impl::PythonTorchFunctionTLS::stack_len();
  state.dispatch_modes = (int32_t)c10::impl::TorchDispatchModeTLS::stack_len();
  state.function_disabled = (int32_t)at::impl::PythonTorchFunctionTLS::get_disabled_state();
  return state;
}

bool TorchState::matches() const {
  TorchState present = now();
  return present.dispatch_modes == 0 && present == *this;
}

// ---- the Python object ----

struct TorchStateObject {
  PyObject_HEAD
  TorchState state;
};
static PyTypeObject TorchState_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

const TorchState* torch_state_of(PyObject* object) {
  return Py_TYPE(object) == &TorchState_Type ? &((TorchStateObject*)object)->state : nullptr;
}

static PyObject* torch_state(PyObject*, PyObject*) {
  TorchStateObject* self = PyObject_New(TorchStateObject, &TorchState_Type);
  if (self) new (&self->state) TorchState(TorchState::now());
  return (PyObject*)self;
}

static void add_line(PyObject* dict, const std::string& name, PyObject* stolen) {
  if (stolen) PyDict_SetItemString(dict, name.c_str(), stolen);
  Py_XDECREF(stolen);
}

static PyObject* text(const char* value) { return PyUnicode_FromString(value); }

static PyObject* as_dict(PyObject* self, PyObject*) {
  const TorchState& state = *torch_state_of(self);
  PyObject* dict = PyDict_New();
  if (!dict) return nullptr;
  for (size_t i = 0; i < std::size(kFlags); i++) add_line(dict, kFlags[i].name, PyBool_FromLong(state.flags >> i & 1));
  add_line(dict, "default dtype", text(c10::toString((at::ScalarType)state.default_dtype)));
  c10::DispatchKeySet excluded(c10::DispatchKeySet::RAW, state.excluded);
  for (int i = 0; i < TorchState::kAutocastDevices; i++) {
    std::string device = c10::DeviceTypeName(kAutocast[i].device, true);
    add_line(dict, "autocast " + device, PyBool_FromLong(!excluded.has(kAutocast[i].key)));
    add_line(dict, "autocast dtype " + device, text(c10::toString((at::ScalarType)state.autocast_dtype[i])));
  }
  add_line(dict, "dispatch keys included", text(c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, state.included)).c_str()));
  add_line(dict, "dispatch keys excluded", text(c10::toString(excluded).c_str()));
  add_line(dict, "float32 precision of CUDA products", PyLong_FromLong(state.precision[0]));
  add_line(dict, "float32 precision of CUDA convolutions", PyLong_FromLong(state.precision[1]));
  add_line(dict, "torch-function modes", PyLong_FromLong(state.function_modes));
  add_line(dict, "torch-dispatch modes", PyLong_FromLong(state.dispatch_modes));
  add_line(dict, "torch functions disabled", PyLong_FromLong(state.function_disabled));
  if (PyErr_Occurred()) Py_CLEAR(dict);
  return dict;
}

static PyObject* matches(PyObject* self, PyObject*) { return PyBool_FromLong(torch_state_of(self)->matches()); }

static PyObject* compare(PyObject* a, PyObject* b, int op) {
  const TorchState *left = torch_state_of(a), *right = torch_state_of(b);
  if (!left || !right || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((*left == *right) == (op == Py_EQ));
}

static PyObject* represent(PyObject* self) {
  PyObject* dict = as_dict(self, nullptr);
  PyObject* result = dict ? PyUnicode_FromFormat("torch_state(%R)", dict) : nullptr;
  Py_XDECREF(dict);
  return result;
}

static PyMethodDef state_methods[] = {
    {"matches", matches, METH_NOARGS, "Whether the present state is this one, and no mode is active."},
    {"as_dict", as_dict, METH_NOARGS, "The state in words."},
    {nullptr, nullptr, 0, nullptr}};

static PyMethodDef functions[] = {
    {"torch_state", torch_state, METH_NOARGS, "A snapshot of the torch state that graphs depend on."},
    {nullptr, nullptr, 0, nullptr}};

bool init_torch_state(PyObject* module) {
  TorchState_Type.tp_name = "framelift._core.TorchState";
  TorchState_Type.tp_basicsize = sizeof(TorchStateObject);
  TorchState_Type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  TorchState_Type.tp_methods = state_methods;
  TorchState_Type.tp_richcompare = compare;
  TorchState_Type.tp_hash = PyObject_HashNotImplemented;
  TorchState_Type.tp_repr = represent;
  TorchState_Type.tp_doc = "Torch's state at one moment; made by torch_state().";
  return PyType_Ready(&TorchState_Type) == 0 && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace framelift
