// Remembered: checks on what tensors hold.  Such a check asks Python once, and while the tensors hold the very bytes
// for which it held, nobody is asked again.
#include "remembered.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <vector>

#include "barrier.h"
#include "reference.h"

namespace framelift {

// What a tensor held: all that a function of it can see, but gradients, which no such check looks at.
struct HeldValues {
  static constexpr size_t kMostBytes = 4096;
  uint64_t keys = 0;
  caffe2::TypeMeta dtype;
  std::vector<int64_t> size, stride;
  std::vector<char> bytes;

  // Memory of plain tensors of the CPU alone is looked at: small ones, without holes.
  static const c10::TensorImpl* readable(PyObject* value) {
    if (!THPVariable_CheckTypeExact(Py_TYPE(value))) return nullptr;
    const c10::TensorImpl* impl = THPVariable_Unpack(value).unsafeGetTensorImpl();
    static const c10::DispatchKeySet plain =
        c10::DispatchKeySet({c10::DispatchKey::CPU, c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutocastCPU}) |
        c10::autograd_dispatch_keyset;
    if (!plain.has_all(impl->key_set()) || !impl->key_set().has(c10::DispatchKey::CPU)) return nullptr;
    if (impl->has_symbolic_sizes_strides() || !impl->has_storage() || !impl->is_contiguous()) return nullptr;
    size_t bytes = (size_t)impl->numel() * impl->itemsize();
    return bytes <= kMostBytes && (!bytes || impl->data()) ? impl : nullptr;
  }

  bool fit(const c10::TensorImpl* impl) const {
    return impl->key_set().raw_repr() == keys && impl->dtype() == dtype && impl->sizes() == c10::IntArrayRef(size) &&
           impl->strides() == c10::IntArrayRef(stride) &&
           (bytes.empty() || !memcmp(impl->data(), bytes.data(), bytes.size()));
  }

  explicit HeldValues(const c10::TensorImpl* impl)
      : keys(impl->key_set().raw_repr()),
        dtype(impl->dtype()),
        size(impl->sizes().vec()),
        stride(impl->strides().vec()),
        bytes((size_t)impl->numel() * impl->itemsize()) {
    if (!bytes.empty()) memcpy(bytes.data(), impl->data(), bytes.size());
  }
};

struct RememberedObject {
  PyObject_HEAD std::vector<HeldValues>* held;  // NULL: none yet
};
static PyTypeObject Remembered_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};
static PyObject* const holds_name = interned("holds");

static bool still_held(const std::vector<HeldValues>& held, PyObject* tensors) {
  if ((Py_ssize_t)held.size() != PyTuple_GET_SIZE(tensors)) return false;
  for (size_t i = 0; i < held.size(); i++) {
    const c10::TensorImpl* impl = HeldValues::readable(PyTuple_GET_ITEM(tensors, (Py_ssize_t)i));
    if (!impl || !held[i].fit(impl)) return false;
  }
  return true;
}

bool is_remembered(PyObject* check) { return PyType_IsSubtype(Py_TYPE(check), &Remembered_Type); }

bool is_as_remembered(PyObject* check, PyObject* tensor) {
  const std::vector<HeldValues>* held = ((RememberedObject*)check)->held;
  if (!held || held->size() != 1) return false;
  const c10::TensorImpl* impl = HeldValues::readable(tensor);
  return impl && held->front().fit(impl);
}

// What the tensors hold, or none where that cannot be read.
static std::vector<HeldValues> read_values(PyObject* tensors) {
  std::vector<HeldValues> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++) {
    const c10::TensorImpl* impl = HeldValues::readable(PyTuple_GET_ITEM(tensors, i));
    if (!impl) return {};
    values.emplace_back(impl);
  }
  return values;
}

static PyObject* ask(PyObject* object, PyObject* tensors, PyObject* keywords) {
  RememberedObject* self = (RememberedObject*)object;
  if (keywords && PyDict_GET_SIZE(keywords)) return PyErr_Format(PyExc_TypeError, "a check takes no keywords");
  if (self->held && still_held(*self->held, tensors)) Py_RETURN_TRUE;
  std::vector<HeldValues> values = read_values(tensors);  // before: the check, or another thread, may write to them
  Ref holds = Ref::steal(PyObject_GetAttr(object, holds_name));  // Safe: a check is framelift's own object
  Ref answer = Ref::steal(holds ? PyObject_Call(holds.get(), tensors, nullptr) : nullptr);
  if (answer.get() != Py_True || values.empty()) return answer.release();
  if (!self->held) self->held = new std::vector<HeldValues>();
  std::swap(*self->held, values);
  return answer.release();
}

static void dealloc_remembered(PyObject* self) noexcept {
  delete ((RememberedObject*)self)->held;
  Py_TYPE(self)->tp_free(self);
}

bool init_remembered(PyObject* module) {
  define<RememberedObject>(Remembered_Type, "framelift._core.Remembered", PyType_GenericNew, Py_TPFLAGS_BASETYPE,
         "A check on what tensors hold.  A subclass has `holds(*tensors)`, whose answer follows from these alone; it "
         "is not asked while they hold the very bytes for which it last said yes.");
  Remembered_Type.tp_dealloc = slot<dealloc_remembered>;
  Remembered_Type.tp_call = slot<ask>;
  return PyModule_AddType(module, &Remembered_Type) == 0;
}

}  // namespace framelift
