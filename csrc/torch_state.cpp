// The torch state snapshot: taking it, comparing it with the present, and showing it.
#include "torch_state.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <string>
#include <utility>
#include <vector>

#include "barrier.h"
#include "frames.h"
#include "reference.h"
#include "state.h"
#include "torch_functions.h"

// Declared here because their header pulls in all of ATen.
namespace at::autocast {
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
TORCH_API bool is_autocast_enabled(at::DeviceType device_type);
TORCH_API bool is_autocast_cache_enabled();
TORCH_API void set_autocast_dtype(at::DeviceType device_type, at::ScalarType dtype);
TORCH_API void set_autocast_cache_enabled(bool enabled);
}  // namespace at::autocast

namespace framelift {

using at::impl::PythonTorchFunctionTLS;
using at::impl::TorchFunctionDisabledState;

const TorchFunctions torch_functions_on = (TorchFunctions)TorchFunctionDisabledState::ENABLED;
const TorchFunctions torch_functions_off = (TorchFunctions)TorchFunctionDisabledState::ALL_DISABLED;

TorchFunctions torch_functions() { return (TorchFunctions)PythonTorchFunctionTLS::get_disabled_state(); }
void set_torch_functions(TorchFunctions functions) {
  PythonTorchFunctionTLS::set_disabled_state((TorchFunctionDisabledState)functions);
}

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
    {"autocast cache",
     [](const c10::AutogradState&, const at::Context&) { return at::autocast::is_autocast_cache_enabled(); }},
    {"deterministic algorithms",
     [](const c10::AutogradState&, const at::Context& c) { return c.deterministicAlgorithms(); }},
    {"deterministic warn-only",
     [](const c10::AutogradState&, const at::Context& c) { return c.deterministicAlgorithmsWarnOnly(); }},
    {"deterministic fill",
     [](const c10::AutogradState&, const at::Context& c) { return c.deterministicFillUninitializedMemory(); }},
    {"cudnn", [](const c10::AutogradState&, const at::Context& c) { return c.userEnabledCuDNN(); }},
    {"cudnn deterministic", [](const c10::AutogradState&, const at::Context& c) { return c.deterministicCuDNN(); }},
    {"cudnn benchmark", [](const c10::AutogradState&, const at::Context& c) { return c.benchmarkCuDNN(); }},
    {"mkldnn", [](const c10::AutogradState&, const at::Context& c) { return c.userEnabledMkldnn(); }},
};

// ---- functions of torch's that a program replaced ----

// A dictionary of functions that torch's own Python code finds by name, as it was when it was first watched.
struct Namespace {
  Ref owner;  // a class; none for a dictionary
  Ref dict;
  uint64_t version;
  std::vector<std::pair<Ref, Ref>> functions;
};
// Both are never ended: Python is gone by then.
static std::vector<Namespace>& namespaces = *new std::vector<Namespace>;
static std::vector<Ref>& replacements = *new std::vector<Ref>;  // kept, so that an address is one function's for good
static uint64_t patches = 0;

// The same in a row, for the look at each call.
struct PatchedWord {
  const uint64_t* at;
  uint64_t version;
};
static constexpr size_t kMostNamespaces = 32;
static PatchedWord words[kMostNamespaces];
static size_t word_count = 0;

static void note_version(size_t i) {
  namespaces[i].version = dict_version(namespaces[i].dict.get());
  words[i] = {(const uint64_t*)dict_version_at(namespaces[i].dict.get()), namespaces[i].version};
}

static void keep_replacement(PyObject* function) {
  for (const Ref& known : replacements)
    if (known.get() == function) return;
  if (function) replacements.push_back(Ref::new_ref(function));
}

// Runs no code of the program: names are exact strings, functions are compared by identity.
static uint64_t look_for_patches() {
  uint64_t found = 0;
  for (size_t i = 0; i < namespaces.size(); i++) {
    Namespace& space = namespaces[i];
    note_version(i);
    for (auto& [name, function] : space.functions) {
      PyObject* now = PyDict_GetItemWithError(space.dict.get(), name.get());
      if (now == function.get()) continue;
      PyErr_Clear();
      keep_replacement(now);
      uint64_t word = (uint64_t)now * 0x9E3779B97F4A7C15ull ^ (uint64_t)name.get() ^ (uint64_t)space.dict.get() << 7;
      found ^= (word ^ word >> 29) * 0xBF58476D1CE4E5B9ull;
    }
  }
  return found;
}

static uint64_t present_patches() {
  uint64_t difference = 0;
  for (size_t i = 0; i < word_count; i++) difference |= *words[i].at ^ words[i].version;
  return difference ? patches = look_for_patches() : patches;
}

static bool is_function(PyObject* value) {
  return PyFunction_Check(value) || PyCFunction_Check(value) || Py_IS_TYPE(value, &PyMethodDescr_Type);
}

// watch_functions(dictionary or class, owners, absent): its functions are watched from now on; where there are
// `owners`, of functions in Python those whose globals are among them.  `absent` are names that are found elsewhere:
// something put there would hide it.
static PyObject* watch_functions(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 3 || !(PyDict_CheckExact(a[0]) || PyType_Check(a[0])) || !PyTuple_Check(a[1]) || !PyTuple_Check(a[2]))
    return PyErr_Format(PyExc_TypeError, "watch_functions(dictionary or class, tuple of dictionaries, tuple of names)");
  if (word_count == kMostNamespaces) return PyErr_Format(PyExc_RuntimeError, "too many namespaces are watched");
  bool is_class = PyType_Check(a[0]);
  Namespace space{
      Ref::new_ref(is_class ? a[0] : Py_None), Ref::new_ref(is_class ? ((PyTypeObject*)a[0])->tp_dict : a[0]), 0, {}};
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(space.dict.get(), &at, &name, &value);) {
    bool watched = PyUnicode_CheckExact(name) && is_function(value);
    if (watched && PyFunction_Check(value)) {
      watched = !PyTuple_GET_SIZE(a[1]);
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a[1]); i++)
        watched |= PyFunction_GET_GLOBALS(value) == PyTuple_GET_ITEM(a[1], i);
    }
    if (watched) space.functions.emplace_back(Ref::new_ref(name), Ref::new_ref(value));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a[2]); i++) {
    name = PyTuple_GET_ITEM(a[2], i);
    if (PyUnicode_CheckExact(name) && !PyDict_Contains(space.dict.get(), name))
      space.functions.emplace_back(Ref::new_ref(name), Ref());
  }
  namespaces.push_back(std::move(space));
  note_version(word_count++);
  Py_RETURN_NONE;
}

static PyObject* torch_patches(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(present_patches()); }

TorchState TorchState::now() {
  TorchState state;
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  state.included = keys.included_.raw_repr();
  state.excluded = keys.excluded_.raw_repr();
  for (int i = 0; i < kAutocastDevices; i++)
    state.autocast_dtype[i] = (int8_t)at::autocast::get_autocast_dtype(kAutocast[i].device);
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
  state.patches = present_patches();
  return state;
}

// Whether the class of every dispatch mode says that it does not want to see into what is compiled.  A class that
// cannot be asked does not.
static bool modes_ignore_compiled_code() {
  UncapturedScope uncaptured;
  for (int64_t i = 0, n = c10::impl::TorchDispatchModeTLS::stack_len(); i < n; i++) {
    const auto mode = c10::impl::TorchDispatchModeTLS::get_stack_at(i);
    Ref object = Ref::new_ref(mode->ptr(&mode->pyinterpreter()));
    Ref key = Ref::steal(PyObject_GetAttrString(object.get(), "_mode_key"));  // of torch's own modes, which all say so
    if (!key) PyErr_Clear();
    if (key && key.get() != Py_None) return false;
    Ref answer = Ref::steal(PyObject_CallMethod(object.get(), "ignore_compile_internals", nullptr));
    if (!answer) PyErr_Clear();
    if (answer.get() != Py_True) return false;
  }
  return true;
}

bool TorchState::matches() const {
  TorchState present = now();
  if (present.dispatch_modes && modes_ignore_compiled_code()) {  // then as if there were none
    c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, present.included);
    keys = keys.remove(c10::DispatchKey::Python).remove(c10::DispatchKey::PythonTLSSnapshot);
    present.included = keys.raw_repr();
    present.dispatch_modes = 0;
  }
  return present.dispatch_modes == 0 && present == *this;
}

static void put_flags_back(uint32_t flags) {
  auto is_on = [flags](size_t bit) { return (bool)(flags >> bit & 1); };
  c10::AutogradState autograd = c10::AutogradState::get_tls_state();
  autograd.set_grad_mode(is_on(0));
  autograd.set_inference_mode(is_on(1));
  autograd.set_fw_grad_mode(is_on(2));
  c10::AutogradState::set_tls_state(autograd);
  at::autocast::set_autocast_cache_enabled(is_on(3));
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(is_on(4), is_on(5));
  context.setDeterministicFillUninitializedMemory(is_on(6));
  context.setUserEnabledCuDNN(is_on(7));
  context.setDeterministicCuDNN(is_on(8));
  context.setBenchmarkCuDNN(is_on(9));
  context.setUserEnabledMkldnn(is_on(10));
}

void TorchState::put_back() const {
  TorchState present = now();
  if (present == *this) return;
  if (present.flags != flags) put_flags_back(flags);
  for (int i = 0; i < kAutocastDevices; i++)
    if (present.autocast_dtype[i] != autocast_dtype[i])
      at::autocast::set_autocast_dtype(kAutocast[i].device, (at::ScalarType)autocast_dtype[i]);
  if (present.default_dtype != default_dtype)
    c10::set_default_dtype(c10::scalarTypeToTypeMeta((at::ScalarType)default_dtype));
  while (at::impl::PythonTorchFunctionTLS::stack_len() > function_modes) at::impl::PythonTorchFunctionTLS::pop_stack();
  while (c10::impl::TorchDispatchModeTLS::stack_len() > dispatch_modes) c10::impl::TorchDispatchModeTLS::pop_stack();
  at::impl::PythonTorchFunctionTLS::set_disabled_state((at::impl::TorchFunctionDisabledState)function_disabled);
  // Last, since those before write keys too.
  c10::impl::PODLocalDispatchKeySet keys;
  keys.set_included(c10::DispatchKeySet(c10::DispatchKeySet::RAW, included));
  keys.set_excluded(c10::DispatchKeySet(c10::DispatchKeySet::RAW, excluded));
  c10::impl::_force_tls_local_dispatch_key_set(c10::impl::LocalDispatchKeySet(keys));
}

// ---- the Python object ----

struct TorchStateObject {
  PyObject_HEAD TorchState state;
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

static bool add_line(const Ref& dict, const std::string& name, Ref value) {
  return value && PyDict_SetItemString(dict.get(), name.c_str(), value.get()) == 0;
}

static Ref text(const std::string& value) { return Ref::steal(PyUnicode_FromString(value.c_str())); }
static Ref truth(bool value) { return Ref::steal(PyBool_FromLong(value)); }
static Ref number(long value) { return Ref::steal(PyLong_FromLong(value)); }

static bool add_autocast(const Ref& dict, const TorchState& state, c10::DispatchKeySet excluded) {
  for (int i = 0; i < TorchState::kAutocastDevices; i++) {
    std::string device = c10::DeviceTypeName(kAutocast[i].device, true);
    if (!add_line(dict, "autocast " + device, truth(!excluded.has(kAutocast[i].key)))) return false;
    Ref dtype = text(c10::toString((at::ScalarType)state.autocast_dtype[i]));
    if (!add_line(dict, "autocast dtype " + device, std::move(dtype))) return false;
  }
  return true;
}

static PyObject* as_dict(PyObject* self, PyObject*) {
  const TorchState& state = *torch_state_of(self);
  c10::DispatchKeySet included(c10::DispatchKeySet::RAW, state.included),
      excluded(c10::DispatchKeySet::RAW, state.excluded);
  Ref dict = Ref::steal(PyDict_New());
  bool ok = (bool)dict;
  for (size_t i = 0; i < std::size(kFlags); i++) ok = ok && add_line(dict, kFlags[i].name, truth(state.flags >> i & 1));
  ok = ok && add_line(dict, "default dtype", text(c10::toString((at::ScalarType)state.default_dtype))) &&
       add_autocast(dict, state, excluded) && add_line(dict, "dispatch keys included", text(c10::toString(included))) &&
       add_line(dict, "dispatch keys excluded", text(c10::toString(excluded))) &&
       add_line(dict, "float32 precision of CUDA products", number(state.precision[0])) &&
       add_line(dict, "float32 precision of CUDA convolutions", number(state.precision[1])) &&
       add_line(dict, "torch-function modes", number(state.function_modes)) &&
       add_line(dict, "torch-dispatch modes", number(state.dispatch_modes)) &&
       add_line(dict, "torch functions disabled", number(state.function_disabled)) &&
       add_line(dict, "replaced functions of torch", Ref::steal(PyLong_FromUnsignedLongLong(state.patches)));
  return ok ? dict.release() : nullptr;
}

static PyObject* matches(PyObject* self, PyObject*) { return PyBool_FromLong(torch_state_of(self)->matches()); }

static PyObject* compare(PyObject* a, PyObject* b, int op) {
  const TorchState *left = torch_state_of(a), *right = torch_state_of(b);
  if (!left || !right || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((*left == *right) == (op == Py_EQ));
}

static PyObject* represent(PyObject* self) {
  Ref dict = Ref::steal(as_dict(self, nullptr));
  return dict ? PyUnicode_FromFormat("torch_state(%R)", dict.get()) : nullptr;
}

static MethodTable state_methods({
    method<matches, METH_NOARGS>("matches", "Whether the present state is this one, and no mode is active."),
    method<as_dict, METH_NOARGS>("as_dict", "The state in words."),
});

static MethodTable state_functions({
    method<torch_state, METH_NOARGS>("torch_state", "A snapshot of the torch state that graphs depend on."),
    method<watch_functions>(
        "watch_functions",
        "watch_functions(dictionary or class, owners, absent): notice when its functions are replaced"),
    method<torch_patches, METH_NOARGS>("torch_patches",
                                       "A number that stands for the watched functions that are replaced; 0: none."),
});

bool init_torch_state(PyObject* module) {
  define<TorchStateObject>(TorchState_Type, "framelift._core.TorchState", nullptr, Py_TPFLAGS_DISALLOW_INSTANTIATION,
         "Torch's state at one moment; made by torch_state().");
  TorchState_Type.tp_methods = state_methods.rows;
  TorchState_Type.tp_richcompare = slot<compare>;
  TorchState_Type.tp_hash = PyObject_HashNotImplemented;
  TorchState_Type.tp_repr = slot<represent>;
  return PyType_Ready(&TorchState_Type) == 0 && add_functions(module, state_functions);
}

}  // namespace framelift
