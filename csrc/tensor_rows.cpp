// See tensor_rows.h.  Each address is read only after the object it lies in was found in its place: the tensor in its
// Python object, autograd's part in the tensor.  The addresses come from the row, so that the processor need not wait
// for one to read the next.
#include "tensor_rows.h"

#include <cstring>

#include "frames.h"
#include "own_attributes.h"
#include "tensor_fields.h"

namespace framelift {

using torch::autograd::AutogradMeta;

static uint64_t word_at(const void* address) {
  uint64_t word;
  memcpy(&word, (const void*)((uintptr_t)address & ~(uintptr_t)7), sizeof word);
  return word;
}

// dtype, device and the bits after them, up to the dispatch keys.
static uint64_t flags_of(const c10::TensorImpl* impl) { return word_at(&(impl->*field_of(TypeField{}))); }

static uint64_t gradient_of(const AutogradMeta* meta) { return word_at(&meta->requires_grad_); }

// torch's inline room for sizes, then strides.
static const uint64_t* entries_of(const c10::impl::SizesAndStrides& layout) {
  return (const uint64_t*)((const char*)&layout + sizeof(size_t));
}

static bool in_one_word(const void* a, const void* last_byte_of_b) {
  return ((uintptr_t)a & 7) == 0 && (uintptr_t)last_byte_of_b - (uintptr_t)a < 8;
}

// Whether this build of torch lays its fields out as the words above take for granted.
static bool known_layout(const c10::TensorImpl* impl, const AutogradMeta* meta) {
  const char* type = (const char*)&(impl->*field_of(TypeField{}));
  const auto& device = impl->*field_of(DeviceField{});
  const char* keys = (const char*)&(impl->*field_of(KeysField{}));
  const auto& layout = impl->*field_of(LayoutField{});
  bool near = in_one_word(type, (const char*)&device + sizeof device - 1) && keys == type + 8;
  bool inside = sizeof layout == 8 * (1 + 2 * TensorCheck::kInline) &&
                (const void*)layout.sizes_data() == entries_of(layout) &&
                (const void*)layout.strides_data() == entries_of(layout) + TensorCheck::kInline;
  const char* gradient = meta ? (const char*)((uintptr_t)&meta->requires_grad_ & ~(uintptr_t)7) : nullptr;
  return near && inside && (!meta || in_one_word(gradient, &meta->is_view_));
}

// Only backends' own dense tensors: their getters read the fields.
static bool is_dense(uint64_t keys) {
  constexpr c10::DispatchKeySet usual =
      c10::autocast_dispatch_keyset | c10::DispatchKeySet({c10::DispatchKey::Dense, c10::DispatchKey::ADInplaceOrView,
                                                           c10::DispatchKey::AutogradFunctionality});
  c10::DispatchKeySet rest = c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys) - usual;
  return rest.highestFunctionalityKey() == c10::DispatchKey::Undefined;
}

TensorRow tensor_row(PyObject* object, const TensorCheck& check) {
  TensorRow row;
  row.bare = !check.methods.empty();
  if (!check.plain || check.contradictory || check.has_grad >= 0 || check.marks >= 0 || !check.is_leaf ||
      !is_dense(check.keys))
    return row;
  if (row.bare && !surely_without_attributes(object)) {  // TorchDynamo leaves its marks on parameters
    if (!instance_dict_at(object)) return row;
    PyObject* attributes = attributes_at(object);
    row.version = attributes ? dict_version(attributes) : 0;
    if (!row.version) return row;
    row.attributes = attributes;
  }
  const c10::TensorImpl* impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
  const AutogradMeta* meta = autograd_of(impl);
  if (!known_layout(impl, meta) || (meta && (meta->is_view_ || meta->grad_fn_))) return row;  // views ask their base
  row.object = object;
  row.tensor = impl;
  row.autograd = meta;
  row.flags = flags_of(impl);
  row.gradient = meta ? gradient_of(meta) : 0;
  row.check = &check;
  return row;
}

static bool same_attributes(const TensorRow& row) {
  if (!row.attributes) return surely_without_attributes(row.object);
  return attributes_at(row.object) == row.attributes && dict_version((PyObject*)row.attributes) == row.version;
}

uint32_t rows_hold(const TensorRow* rows, uint32_t from, uint32_t to, PyObject** slots) {
  constexpr size_t kStrides = TensorCheck::kInline;
  for (uint32_t i = from; i < to; i++) {
    const TensorRow& row = rows[i];
    if (!row.object) continue;
    const TensorCheck& check = *row.check;
    const c10::TensorImpl* impl = (const c10::TensorImpl*)row.tensor;
    if (Py_TYPE(row.object) != check.type || THPVariable_Unpack(row.object).unsafeGetTensorImpl() != impl) return i;
    if (row.bare && !same_attributes(row)) return i;
    const c10::impl::SizesAndStrides& layout = impl->*field_of(LayoutField{});
    const uint64_t* entries = entries_of(layout);
    uint64_t difference = ((impl->*field_of(KeysField{})).raw_repr() ^ check.keys) | (flags_of(impl) ^ row.flags) |
                          (layout.size() ^ check.dimensions) | ((uint64_t)autograd_of(impl) ^ (uint64_t)row.autograd);
    difference |= ((entries[0] ^ check.raw[0]) | (entries[kStrides] ^ check.raw[kStrides])) &
                  check.asked[0];  // most have two dimensions at most
    difference |= ((entries[1] ^ check.raw[1]) | (entries[kStrides + 1] ^ check.raw[kStrides + 1])) & check.asked[1];
    if (difference) return i;
    for (size_t k = 2; k < check.dimensions; k++)
      difference |= (entries[k] ^ check.raw[k]) | (entries[kStrides + k] ^ check.raw[kStrides + k]);
    const AutogradMeta* meta = (const AutogradMeta*)row.autograd;
    if (meta) difference |= (gradient_of(meta) ^ row.gradient) | (uint64_t)meta->grad_fn_.get();
    if (difference) return i;
    if (row.slot < 0) continue;
    PyObject* before = slots[row.slot];
    slots[row.slot] = Py_NewRef(row.object);
    Py_XDECREF(before);
  }
  return to;
}

}  // namespace framelift
