// Which tensors share their memory, and where they lie in it: what graphs that write to inputs rest on.
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <vector>

#include "barrier.h"
#include "reference.h"
#include "state.h"
#include "tensor_class.h"

namespace framelift {

// For storages met one after another, the place of the first that is the same.  Graphs that write to inputs look at
// every call, so it is a table without nodes of its own.
class FirstPlaces {
 public:
  explicit FirstPlaces(size_t count) : storages(count) {
    while (slots.size() < 2 * count) slots.resize(2 * slots.size(), kFree);
  }

  size_t first(const void* storage, size_t place) {
    storages[place] = storage;
    size_t at = ((uintptr_t)storage >> 4) * 0x9E3779B97F4A7C15u;
    for (at ^= at >> 32;; at++) {
      uint32_t& found = slots[at & (slots.size() - 1)];
      if (found == kFree) return found = (uint32_t)place;
      if (storages[found] == storage) return found;
    }
  }

 private:
  static constexpr uint32_t kFree = ~(uint32_t)0;
  std::vector<uint32_t> slots = std::vector<uint32_t>(16, kFree);
  std::vector<const void*> storages;
};

// Bytes of memory, from `low` up to `high`, and the place of the tensor that they are of.
struct Bytes {
  uintptr_t low, high;
  size_t place;
};

// The memory of a storage; none where it has no data.
static Bytes span_of(const c10::StorageImpl* storage, size_t place) {
  // Neither a copy on write nor a fake is to notice.
  auto low = (uintptr_t) const_cast<c10::StorageImpl*>(storage)->_mutable_data_ptr_no_checks().get();
  return {low, low ? low + storage->nbytes() : 0, place};
}

// Whether torch did not allocate the memory: then it may be that of another storage too.
static bool is_foreign(const c10::StorageImpl* storage) { return !storage->resizable(); }

static bool is_plainly_strided(const c10::TensorImpl* tensor) {
  return !tensor->has_symbolic_sizes_strides() && !tensor->key_set().has(c10::DispatchKey::NestedTensor);
}

// Between which bytes the elements of a tensor lie; those of its storage, where it is not known.
static Bytes span_of(const at::Tensor& tensor, size_t place) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  Bytes all = span_of(tensor.storage().unsafeGetStorageImpl(), place);
  if (!is_plainly_strided(impl)) return {all.low, std::max(all.low + 1, all.high), place};
  c10::IntArrayRef sizes = impl->sizes(), strides = impl->strides();
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] == 0) return {all.low, all.low, place};
    last += (sizes[i] - 1) * strides[i];
  }
  uintptr_t item = impl->itemsize(), low = all.low + (uintptr_t)impl->storage_offset() * item;
  return {low, low + (uintptr_t)(last + 1) * item, place};
}

// Whether two of them have a byte in common.  Sorts them.
static bool any_overlap(std::vector<Bytes>& found) {
  std::sort(found.begin(), found.end(), [](const Bytes& a, const Bytes& b) { return a.low < b.low; });
  uintptr_t high = 0;
  for (const Bytes& one : found) {
    if (one.low == one.high) continue;
    if (one.low < high) return true;
    high = one.high;
  }
  return false;
}

// How some tensors lie in memory, `written` of them being written to.
struct Layout {
  std::vector<at::Tensor const*> tensors;  // null: no tensor, or one without a storage
  std::vector<size_t> firsts;              // the first one with the same memory, where that is written to

  // False with an exception set.
  bool read(PyObject* given, PyObject* written) {
    size_t count = (size_t)PyTuple_GET_SIZE(given);
    tensors.resize(count), firsts.resize(count);
    FirstPlaces places(count);
    bool foreign = false, shared = false;
    for (size_t i = 0; i < count; i++) {
      PyObject* item = PyTuple_GET_ITEM(given, (Py_ssize_t)i);
      tensors[i] = nullptr, firsts[i] = i;
      if (!is_tensor(item)) continue;  // shares with nothing: equal numbers may be one object
      const at::Tensor& tensor = THPVariable_Unpack(item);
      if (!tensor.has_storage()) {
        firsts[i] = places.first(item, i);
      } else {
        const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
        tensors[i] = &tensor;
        firsts[i] = places.first(storage, i);
        foreign = foreign || is_foreign(storage);
      }
      shared = shared || firsts[i] != i;
    }
    if (foreign) shared = join_storages() || shared;
    return !shared || leave_unwritten(written);
  }

  // Groups of tensors that share memory which is written to, each in the order of the tensors.
  std::vector<std::vector<size_t>> groups() const {
    std::vector<std::vector<size_t>> found(firsts.size()), shared;
    for (size_t i = 0; i < firsts.size(); i++)
      if (tensors[i]) found[firsts[i]].push_back(i);
    for (auto& group : found)
      if (group.size() > 1) shared.push_back(std::move(group));
    return shared;
  }

  bool overlaps(const std::vector<size_t>& group) const {
    std::vector<Bytes> found;
    for (size_t i : group) found.push_back(span_of(*tensors[i], i));
    return any_overlap(found);
  }

 private:
  // Storages over memory of others: one place for those that have bytes in common.
  bool join_storages() {
    std::vector<Bytes> storages;
    for (size_t i = 0; i < firsts.size(); i++)
      if (tensors[i] && firsts[i] == i) storages.push_back(span_of(tensors[i]->storage().unsafeGetStorageImpl(), i));
    if (!any_overlap(storages)) return false;
    std::vector<size_t> joined(firsts.size());
    for (size_t i = 0; i < joined.size(); i++) joined[i] = i;
    for (size_t from = 0, to = 0; from < storages.size(); from = to) {
      uintptr_t high = storages[from].high;
      size_t first = storages[from].place;
      for (to = from + 1; to < storages.size() && storages[to].low < high; to++) {
        high = std::max(high, storages[to].high);
        first = std::min(first, storages[to].place);
      }
      for (size_t i = from; i < to; i++) joined[storages[i].place] = first;
    }
    for (size_t& first : firsts) first = joined[first];
    return true;
  }

  // What nobody writes to may be shared or not.
  bool leave_unwritten(PyObject* written) {
    if (written == Py_None) return true;
    std::vector<char> is_written(firsts.size());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(written); i++) {
      size_t place = PyLong_AsSize_t(PyTuple_GET_ITEM(written, i));
      if (place == (size_t)-1 && PyErr_Occurred()) return false;
      if (place < firsts.size()) is_written[firsts[place]] = 1;
    }
    for (size_t i = 0; i < firsts.size(); i++)
      if (!is_written[firsts[i]]) firsts[i] = i;
    return true;
  }
};

static void add_place(std::vector<int64_t>& to, const c10::TensorImpl* impl) {
  to.push_back((int64_t)c10::typeMetaToScalarType(impl->dtype()));
  if (!is_plainly_strided(impl)) return;
  to.push_back(impl->storage_offset());
  to.push_back((int64_t)impl->dim());
  for (c10::IntArrayRef entries : {impl->sizes(), impl->strides()})
    to.insert(to.end(), entries.begin(), entries.end());
}

// Where the tensors of one group lie: in a storage of which size, where in it, and views of which tensors.
static void describe(const Layout& layout, const std::vector<size_t>& group, std::vector<int64_t>& to) {
  std::vector<const c10::TensorImpl*> bases;
  auto number_of = [&](const c10::TensorImpl* base) {
    auto found = std::find(bases.begin(), bases.end(), base);
    if (found == bases.end()) found = bases.insert(bases.end(), base);
    return (int64_t)(found - bases.begin()) + 1;
  };
  to.push_back((int64_t)layout.tensors[group[0]]->storage().nbytes());
  for (size_t i : group) {
    const at::Tensor& tensor = *layout.tensors[i];
    to.push_back((int64_t)i);
    add_place(to, tensor.unsafeGetTensorImpl());
    to.push_back(tensor.is_view() ? number_of(tensor._base().unsafeGetTensorImpl()) : 0);
  }
  for (size_t i : group) {  // one may be what others are views of
    auto found = std::find(bases.begin(), bases.end(), layout.tensors[i]->unsafeGetTensorImpl());
    to.push_back(found == bases.end() ? 0 : found - bases.begin() + 1);
  }
  for (const c10::TensorImpl* base : bases) {
    to.push_back(base->requires_grad());
    add_place(to, base);
  }
}

static bool parse(PyObject* const* args, Py_ssize_t count, Py_ssize_t expected, Layout& layout) {
  if (count == expected && PyTuple_Check(args[0]) && (args[1] == Py_None || PyTuple_Check(args[1])))
    return layout.read(args[0], args[1]);
  PyErr_SetString(PyExc_TypeError, "a tuple of tensors, and of the places of those that are written to");
  return false;
}

// memory_pattern(tensors, written, exact): for each tensor the place of the first one with the same memory, where
// that is written to; else its own.  Where the tensors of such memory overlap, `exact` adds where they lie.
static PyObject* memory_pattern(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Layout layout;
  if (!parse(args, count, 3, layout)) return nullptr;
  std::vector<int64_t> places;
  if (args[2] == Py_True)
    for (const auto& group : layout.groups())
      if (layout.overlaps(group)) describe(layout, group, places);
  size_t firsts = layout.firsts.size();
  return make_tuple((Py_ssize_t)(firsts + places.size()),
                    [&](Py_ssize_t i) {
                      return Ref::steal((size_t)i < firsts ? PyLong_FromSize_t(layout.firsts[(size_t)i])
                                                           : PyLong_FromLongLong(places[(size_t)i - firsts]));
                    })
      .release();
}

// memory_overlap(tensors, written): 0 where none of them overlap in memory that is written to; 1 where some do, all of
// one dtype in one storage; else 2.
static PyObject* memory_overlap(PyObject*, PyObject* const* args, Py_ssize_t count) {
  Layout layout;
  if (!parse(args, count, 2, layout)) return nullptr;
  long found = 0;
  for (const auto& group : layout.groups()) {
    if (!layout.overlaps(group)) continue;
    const at::Tensor& first = *layout.tensors[group[0]];
    bool alike = std::all_of(group.begin(), group.end(), [&](size_t i) {
      const at::Tensor& one = *layout.tensors[i];
      return one.storage().unsafeGetStorageImpl() == first.storage().unsafeGetStorageImpl() &&
             one.dtype() == first.dtype();
    });
    found = std::max(found, alike ? 1L : 2L);
  }
  return PyLong_FromLong(found);
}

// memory_of(tensor): (the first byte of its storage, the one behind its last, whether torch did not allocate it), or
// None where there is no data.
static PyObject* memory_of(PyObject*, PyObject* object) {
  if (!is_tensor(object)) return PyErr_Format(PyExc_TypeError, "memory_of(tensor)");
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.has_storage()) Py_RETURN_NONE;
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  Bytes all = span_of(storage, 0);
  if (all.low == all.high) Py_RETURN_NONE;
  return Py_BuildValue("KKO", (unsigned long long)all.low, (unsigned long long)all.high,
                       is_foreign(storage) ? Py_True : Py_False);
}

static MethodTable memory_pattern_functions({
    method<memory_pattern>("memory_pattern",
                           "memory_pattern(tensors, written, exact): which tensors share memory that is written to"),
    method<memory_overlap>("memory_overlap",
                           "memory_overlap(tensors, written): whether some overlap in memory that is written to"),
    method<memory_of, METH_O>("memory_of",
                              "memory_of(tensor): from where to where its storage goes, and whether torch did not "
                              "allocate it"),
});

bool init_memory_pattern(PyObject* module) { return add_functions(module, memory_pattern_functions); }

}  // namespace framelift
