// See tensor_rows.h.  Each address is read only after the object it lies in was found in its place: the tensor in its
// Python object, autograd's part in the tensor.  The addresses come from the row, so that the processor need not wait
// for one to read the next.
#include "tensor_rows.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "frames.h"
#include "layouts.h"
#include "own_attributes.h"
#include "reference.h"
#include "tensor_class.h"
#include "tensor_fields.h"

namespace framelift {

using torch::autograd::AutogradMeta;

// The word that a field of an object lies in.
static uint64_t word_at(const void* object, size_t field) {
  uint64_t word;
  memcpy(&word, (const char*)object + (field & ~(size_t)7), sizeof word);
  return word;
}

template <typename Object, typename Field>
static size_t offset_of(const Object* object, const Field& field) {
  return (size_t)((const char*)&field - (const char*)object);
}

static uint64_t gradient_of(const AutogradMeta* meta) { return word_at(meta, offset_of(meta, meta->requires_grad_)); }

// The words of a tensor from its sizes on: those of TensorCheck::words, and at kTypeWord dtype, device and the bits
// that say how its getters answer, then its dispatch keys.
static constexpr size_t kTypeWord = 13;
static const uint64_t* words_of(const c10::TensorImpl* impl) {
  return (const uint64_t*)&(impl->*field_of(LayoutField{}));
}

static bool in_one_word(const void* a, const void* last_byte_of_b) {
  return ((uintptr_t)a & 7) == 0 && (uintptr_t)last_byte_of_b - (uintptr_t)a < 8;
}

// Whether this build of torch lays its fields out as the words above take for granted.
static bool tensor_layout(const c10::TensorImpl* impl, const AutogradMeta* meta) {
  const uint64_t* words = words_of(impl);
  const void* type = &(impl->*field_of(TypeField{}));
  const auto& device = impl->*field_of(DeviceField{});
  const void* keys = &(impl->*field_of(KeysField{}));
  const auto& layout = impl->*field_of(LayoutField{});
  bool near = in_one_word(type, (const char*)&device + sizeof device - 1) && type == words + kTypeWord &&
              keys == words + kTypeWord + 1;
  bool inside = sizeof layout == 8 * (1 + 2 * TensorCheck::kInline) && words[0] == layout.size() &&
                (const void*)layout.sizes_data() == words + 1 &&
                (const void*)layout.strides_data() == words + 1 + TensorCheck::kInline;
  const char* gradient = meta ? (const char*)((uintptr_t)&meta->requires_grad_ & ~(uintptr_t)7) : nullptr;
  return near && inside && (!meta || in_one_word(gradient, &meta->is_view_));
}

// One that torch itself makes, without its dispatcher.
static bool tensors_are_known() {
  at::TensorBase made = at::detail::empty_cpu({2, 3}, at::kFloat);
  c10::TensorImpl* impl = made.unsafeGetTensorImpl();
  impl->set_requires_grad(true);
  const AutogradMeta* meta = autograd_of(impl);
  const auto& device = impl->*field_of(DeviceField{});
  const auto& layout = impl->*field_of(LayoutField{});
  if (layout.sizes_arrayref() != at::IntArrayRef({2, 3}) || layout.strides_arrayref() != at::IntArrayRef({3, 1}))
    return false;
  if (impl->*field_of(TypeField{}) != made.dtype() || !device || *device != c10::Device(c10::kCPU)) return false;
  if (!(impl->*field_of(KeysField{})).has_all(c10::DispatchKeySet(c10::DispatchKey::CPU))) return false;
  if (!meta || !meta->requires_grad_ || meta->is_view_ || meta->grad_fn_) return false;
  Ref object = Ref::steal(THPVariable_Wrap(made));
  return object && is_tensor(object.get()) && THPVariable_Unpack(object.get()).unsafeGetTensorImpl() == impl &&
         made.storage().nbytes() == 6 * sizeof(float) && impl->storage_offset() == 0;
}

static const LayoutCheck known_tensors("torch's tensors", "tensor_fields.h", tensors_are_known);

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
  if (!tensor_layout(impl, meta) || (meta && (meta->is_view_ || meta->grad_fn_))) return row;  // views ask their base
  row.object = object;
  row.tensor = impl;
  row.autograd = meta;
  row.flags[0] = words_of(impl)[kTypeWord];
  row.flags[1] = check.keys;
  row.gradient = meta ? gradient_of(meta) : 0;
  row.check = &check;
  return row;
}

static bool same_attributes(const TensorRow& row) {
  if (!row.attributes) return surely_without_attributes(row.object);
  return attributes_at(row.object) == row.attributes && dict_version((PyObject*)row.attributes) == row.version;
}

// Words as processors compare them: two at a time, and most of them four.
using Two = uint64_t __attribute__((vector_size(16), aligned(8), may_alias));
using Four = uint64_t __attribute__((vector_size(32), aligned(8), may_alias));

// Functions that compare rows are compiled twice, and one is chosen when the core is loaded.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define FRAMELIFT_FOR_PROCESSORS __attribute__((target_clones("avx2", "default")))
#else
#define FRAMELIFT_FOR_PROCESSORS
#endif

// What a row says of any tensor alike, read once: registers have room for it.
struct Look {
  const PyTypeObject* type;
  uint64_t gradient;
  Two flags;  // and dispatch keys
  Four first, second, third, first_asked, second_asked, third_asked;

  inline __attribute__((always_inline)) explicit Look(const TensorRow& row)
      : type(row.check->type),
        gradient(row.gradient),
        flags(*(const Two*)row.flags),
        first(four(row.check->words)),
        second(four(row.check->words + 4)),
        third(four(row.check->words + 8)),
        first_asked(four(row.check->asked)),
        second_asked(four(row.check->asked + 4)),
        third_asked(four(row.check->asked + 8)) {}

  inline __attribute__((always_inline)) bool is_of(PyObject* object, const void* tensor, const void* autograd) const {
    const c10::TensorImpl* impl = (const c10::TensorImpl*)tensor;
    const AutogradMeta* meta = (const AutogradMeta*)autograd;
    if (Py_TYPE(object) != type || THPVariable_Unpack(object).unsafeGetTensorImpl() != impl) return false;
    if (autograd_of(impl) != meta) return false;
    const uint64_t* found = words_of(impl);
    Four all = ((four(found) ^ first) & first_asked) | ((four(found + 4) ^ second) & second_asked) |
               ((four(found + 8) ^ third) & third_asked);
    Two both = __builtin_shufflevector(all, all, 0, 1) | __builtin_shufflevector(all, all, 2, 3) |
               (*(const Two*)(found + kTypeWord) ^ flags);
    if (both[0] | both[1]) return false;
    return !meta || !((gradient_of(meta) ^ gradient) | (uint64_t)meta->grad_fn_.get());
  }

 private:
  static inline __attribute__((always_inline)) const Four& four(const uint64_t* at) { return *(const Four*)at; }
};

FRAMELIFT_FOR_PROCESSORS
uint32_t rows_hold(const TensorRow* rows, uint32_t from, uint32_t to, PyObject** slots) {
  for (uint32_t i = from; i < to; i++) {
    const TensorRow& row = rows[i];
    if (!row.object) continue;
    if (!Look(row).is_of(row.object, row.tensor, row.autograd) || (row.bare && !same_attributes(row))) return i;
    if (row.slot < 0) continue;
    PyObject* before = slots[row.slot];
    slots[row.slot] = Py_NewRef(row.object);
    Py_XDECREF(before);
  }
  return to;
}

// ---- groups of rows ----

static auto look_of(const TensorRow& row) {
  return std::tuple(row.check, row.flags[0], row.gradient, row.autograd != nullptr, row.bare);
}

void AlikeTensors::take(const std::vector<TensorRow>& rows) {
  clear();
  std::vector<TensorRow> sorted;
  for (const TensorRow& row : rows)
    if (row.object) (row.attributes ? others : sorted).push_back(row);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const TensorRow& a, const TensorRow& b) { return look_of(a) < look_of(b); });
  for (const TensorRow& row : sorted) {
    if (groups.empty() || look_of(groups.back().row) != look_of(row)) groups.push_back({row, 0});
    tensors.push_back({row.object, row.tensor, row.autograd, row.slot});
    groups.back().end = (uint32_t)tensors.size();
  }
}

void AlikeTensors::clear() {
  groups.clear();
  tensors.clear();
  others.clear();
}

FRAMELIFT_FOR_PROCESSORS
bool AlikeTensors::hold(PyObject** slots) const {
  const One* one = tensors.data();
  for (const Group& group : groups) {
    const Look look(group.row);
    const bool bare = group.row.bare;
    for (const One* const end = tensors.data() + group.end; one < end; one++) {
      if (!look.is_of(one->object, one->tensor, one->autograd)) return false;
      if (bare && !surely_without_attributes(one->object)) return false;
      if (one->slot >= 0) slots[one->slot] = Py_NewRef(one->object);
    }
  }
  return rows_hold(others.data(), 0, (uint32_t)others.size(), slots) == others.size();
}

}  // namespace framelift
