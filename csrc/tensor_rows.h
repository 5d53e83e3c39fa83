// Tensors that satisfied their checks, as rows of what was found in memory: while the same words are found there, the
// checks hold. Most tensors of a model are its parameters, so this loop is most of what a call costs.
#pragma once
#include "tensor_check.h"

namespace framelift {

struct TensorRow {
  PyObject* object = nullptr;      // borrowed, valid while the records before it hold; NULL: no row
  const void* tensor = nullptr;    // torch's part of it
  const void* autograd = nullptr;  // autograd's part of that, or NULL
  uint64_t flags[2] = {};          // dtype, device and all that says how its getters answer; dispatch keys
  uint64_t gradient = 0;           // whether it is a view and asks for gradients
  const TensorCheck* check = nullptr;
  int32_t slot = -1;  // where the tensor is handed out, or -1
  uint32_t record = 0;
  // Attributes of its own would hide methods: it must have none, or those that it had, in a dictionary of this version.
  bool bare = false;
  const PyObject* attributes = nullptr;
  uint64_t version = 0;
};

// The row of a tensor that satisfies the check; without an object where words of memory cannot tell.
TensorRow tensor_row(PyObject* object, const TensorCheck& check);
// The first row of [from, to) that does not hold, or `to`.  Tensors of rows that hold are put into their slots.
uint32_t rows_hold(const TensorRow* rows, uint32_t from, uint32_t to, PyObject** slots);

// Rows in groups of those that ask the same of their tensors: what they ask is read once for each group.  A model has
// many parameters and few shapes.
class AlikeTensors {
 public:
  void take(const std::vector<TensorRow>& rows);
  void clear();
  // Whether all rows hold; as rows_hold, but their slots are empty.
  bool hold(PyObject** slots) const;

 private:
  struct One {
    PyObject* object;
    const void *tensor, *autograd;
    int32_t slot;
  };
  struct Group {
    TensorRow row;  // any of them
    uint32_t end;   // of its tensors, which begin where those of the group before it end
  };
  std::vector<Group> groups;
  std::vector<One> tensors;
  std::vector<TensorRow> others;  // with attributes of their own
};

}  // namespace framelift
