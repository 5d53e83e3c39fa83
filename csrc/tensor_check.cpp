// Comparing a tensor with prepared facts.  The only file of the guards that needs torch's Python headers.
#include "tensor_check.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>

#include <algorithm>

#include "own_attributes.h"
#include "reference.h"
#include "tensor_fields.h"

namespace framelift {

static int64_t pack_device(c10::Device device) { return ((int64_t)device.type() << 32) + (int64_t)device.index(); }

// The layout that a tensor of these keys has; tensors implemented in Python are not asked for theirs.
static c10::Layout layout_of(c10::DispatchKeySet keys) {
  if (keys.has_all(c10::DispatchKeySet(c10::DispatchKey::Sparse))) return c10::kSparse;
  if (keys.has_any(c10::DispatchKeySet({c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr})))
    return c10::kSparseCsr;
  return keys.has(c10::DispatchKey::MkldnnCPU) ? c10::kMkldnn : c10::kStrided;
}

// ---- parsing ----

static bool parse_entries(PyObject* tuple, std::vector<int64_t>& to, bool* any) {
  if (!PyTuple_Check(tuple)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    PyObject* entry = PyTuple_GET_ITEM(tuple, i);
    if (entry == Py_None) {
      *any = true;
      to.push_back(TensorCheck::kAny);
      continue;
    }
    to.push_back(PyLong_AsLongLong(entry));
    if (PyErr_Occurred()) return false;
  }
  return true;
}

// A set of dimensions as bits.
static bool parse_marks(PyObject* marks, int64_t rank, int64_t* bits) {
  Ref items = Ref::steal(PySequence_List(marks));
  if (!items) return false;
  *bits = 0;
  for (Py_ssize_t i = 0; rank && i < PyList_GET_SIZE(items.get()); i++) {
    int64_t dim = PyLong_AsLongLong(PyList_GET_ITEM(items.get(), i));
    if (dim == -1 && PyErr_Occurred()) return false;
    if (dim >= -rank && dim < rank) *bits |= (int64_t)1 << ((dim + rank) % rank % 62);
  }
  return true;
}

std::unique_ptr<TensorCheck> parse_tensor_facts(PyObject* facts) {
  auto field = [facts](const char* name) {  // nothing more is asked once one is missing
    // Safe: facts are framelift's own record.
    return Ref::steal(PyErr_Occurred() ? nullptr : PyObject_GetAttrString(facts, name));
  };
  Ref type = field("python_type"), dtype = field("dtype"), device = field("device"), layout = field("layout"),
      size = field("size"), stride = field("stride"), requires_grad = field("requires_grad"),
      is_leaf = field("is_leaf"), keys = field("keys"), is_conj = field("is_conj"), is_neg = field("is_neg"),
      is_inference = field("is_inference"), has_grad = field("has_grad"), marks = field("marks"),
      methods = field("methods");
  if (PyErr_Occurred()) return nullptr;
  auto check = std::make_unique<TensorCheck>();
  bool fits = PyType_Check(type.get()) && THPDtype_Check(dtype.get()) && THPDevice_Check(device.get()) &&
              THPLayout_Check(layout.get());
  check->check_stride = stride.get() != Py_None;
  bool any = false;
  fits = fits && parse_entries(size.get(), check->size, &any) &&
         (!check->check_stride || parse_entries(stride.get(), check->stride, &any));
  if (!fits) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "TENSOR takes TensorFacts");
    return nullptr;
  }
  check->dimensions = (uint32_t)check->size.size();
  check->plain = !any && check->check_stride && check->size.size() <= TensorCheck::kInline &&
                 check->stride.size() == check->size.size();
  if (check->plain) {
    std::copy(check->size.begin(), check->size.end(), check->entries);
    std::copy(check->stride.begin(), check->stride.end(), check->entries + check->dimensions);
    auto put = [&](size_t at, uint64_t word) { check->words[at] = word, check->asked[at] = ~(uint64_t)0; };
    put(0, check->dimensions);
    for (size_t i = 0; i < check->dimensions; i++) {
      put(1 + i, (uint64_t)check->size[i]);
      put(1 + TensorCheck::kInline + i, (uint64_t)check->stride[i]);
    }
  }
  check->type = (PyTypeObject*)type.get();
  check->dtype = (int8_t)((THPDtype*)dtype.get())->scalar_type;
  check->device = pack_device(((THPDevice*)device.get())->device);
  check->keys = PyLong_AsUnsignedLongLong(keys.get());
  if (PyErr_Occurred()) return nullptr;
  check->requires_grad = requires_grad.get() == Py_True;
  check->is_leaf = is_leaf.get() == Py_True;
  check->has_grad = has_grad.get() == Py_None ? -1 : has_grad.get() == Py_True;
  if (marks.get() != Py_None && !parse_marks(marks.get(), (int64_t)check->dimensions, &check->marks)) return nullptr;
  for (Py_ssize_t i = 0; PyTuple_Check(methods.get()) && i < PyTuple_GET_SIZE(methods.get()); i++) {
    PyObject* name = Py_NewRef(PyTuple_GET_ITEM(methods.get(), i));
    PyUnicode_InternInPlace(&name);
    check->methods.push_back(name);
  }
  c10::DispatchKeySet set(c10::DispatchKeySet::RAW, check->keys);
  bool inference = !set.has(c10::DispatchKey::ADInplaceOrView) && !set.has_any(c10::autograd_dispatch_keyset);
  check->contradictory = set.has(c10::DispatchKey::Conjugate) != (is_conj.get() == Py_True) ||
                         set.has(c10::DispatchKey::Negative) != (is_neg.get() == Py_True) ||
                         inference != (is_inference.get() == Py_True) ||
                         layout_of(set) != ((THPLayout*)layout.get())->layout;
  return check;
}

bool tensor_runs_code(const TensorCheck& check) {
  c10::DispatchKeySet set(c10::DispatchKeySet::RAW, check.keys);
  return set.has_any(c10::DispatchKeySet(
      {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::NestedTensor}));
}

bool tensor_type_is_torchs(const TensorCheck& check) { return THPVariable_CheckTypeExact(check.type); }

int tensor_has_grad(PyObject* value) {
  if (!PyObject_TypeCheck(value, (PyTypeObject*)THPVariableClass)) {
    PyErr_SetString(PyExc_TypeError, "has_grad takes a tensor");
    return -1;
  }
  auto* meta = autograd_of(THPVariable_Unpack(value).unsafeGetTensorImpl());
  return meta && meta->grad_.defined();
}

// ---- comparing ----

static bool same_entries(const std::vector<int64_t>& expected, c10::IntArrayRef actual) {
  if (actual.size() != expected.size()) return false;
  for (size_t i = 0; i < expected.size(); i++)
    if (expected[i] != actual[i] && expected[i] != TensorCheck::kAny) return false;
  return true;
}

static bool same_layout(const TensorCheck& check, const c10::TensorImpl* impl) {
  c10::IntArrayRef size = impl->sizes();
  if (!check.plain)
    return same_entries(check.size, size) && (!check.check_stride || same_entries(check.stride, impl->strides()));
  c10::IntArrayRef stride = impl->strides();
  if (size.size() != check.dimensions || stride.size() != check.dimensions) return false;
  uint64_t difference = 0;
  for (uint32_t i = 0; i < check.dimensions; i++)
    difference |= (uint64_t)(size[i] ^ check.entries[i]) | (uint64_t)(stride[i] ^ check.entries[check.dimensions + i]);
  return difference == 0;
}

// Autograd's view of the tensor.  No metadata means: a leaf that needs no gradient and has none.
static bool same_autograd(const TensorCheck& check, const c10::TensorImpl* impl) {
  auto* meta = autograd_of(impl);
  if (!meta) return !check.requires_grad && check.is_leaf && check.has_grad != 1;
  bool requires_grad = meta->is_view_ ? meta->requires_grad() : meta->requires_grad_ || meta->grad_fn_;
  if (requires_grad != check.requires_grad || (meta->grad_fn_ == nullptr) != check.is_leaf) return false;
  return check.has_grad < 0 || meta->grad_.defined() == (check.has_grad == 1);
}

// A tensor that was declared dynamic after its capture is not what was captured.
static bool same_marks(const TensorCheck& check, PyObject* value) {
  static PyObject* name = PyUnicode_InternFromString("_dynamo_dynamic_indices");
  Ref marks = Ref::steal(_PyObject_GenericGetAttrWithDict(value, name, nullptr, 1));
  int64_t bits = 0;
  bool same =
      marks ? parse_marks(marks.get(), (int64_t)check.dimensions, &bits) && !(bits & ~check.marks) : !PyErr_Occurred();
  PyErr_Clear();
  return same;
}

// Whether a method is what its class holds: an attribute of the tensor itself would be found in its place.  No code of
// the program runs: such a class reads generically, and what hides a method is not called.
static bool is_bound_to(PyObject* value, PyObject* name) {
  Ref found = Ref::steal(_PyObject_GenericGetAttrWithDict(value, name, nullptr, 1));
  if (!found) PyErr_Clear();
  PyObject *method = found.get(), *of_class = _PyType_Lookup(Py_TYPE(value), name);
  if (!method || !of_class) return false;
  if (PyFunction_Check(of_class))
    return PyMethod_Check(method) && PyMethod_GET_SELF(method) == value && PyMethod_GET_FUNCTION(method) == of_class;
  return PyCFunction_Check(method) && PyCFunction_GET_SELF(method) == value &&
         Py_IS_TYPE(of_class, &PyMethodDescr_Type) &&
         ((PyCFunctionObject*)method)->m_ml == ((PyMethodDescrObject*)of_class)->d_method;
}

static bool has_its_methods(const TensorCheck& check, PyObject* value) {
  if (check.methods.empty() || surely_without_attributes(value)) return true;
  for (PyObject* name : check.methods)
    if (!is_bound_to(value, name)) return false;
  return true;
}

bool tensor_holds(const TensorCheck& check, PyObject* value) {
  if (Py_TYPE(value) != check.type || check.contradictory) return false;
  const c10::TensorImpl* impl = THPVariable_Unpack(value).unsafeGetTensorImpl();
  // Equal keys first: they say whether the getters below are plain reads.
  if (impl->key_set().raw_repr() != check.keys) return false;
  try {
    return (int8_t)impl->dtype().toScalarType() == check.dtype && pack_device(impl->device()) == check.device &&
           !impl->has_symbolic_sizes_strides() && same_layout(check, impl) && same_autograd(check, impl) &&
           (check.marks < 0 || same_marks(check, value)) && has_its_methods(check, value);
  } catch (const std::exception&) {  // a kind of tensor that has no such property
    PyErr_Clear();
    return false;
  }
}

}  // namespace framelift
