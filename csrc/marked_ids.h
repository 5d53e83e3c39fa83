// TorchDynamo's sets of ids of marked callables, as they are now: what the kind UNMARKED asks.
#pragma once
#include <vector>

#include "reference.h"

namespace framelift {

// Finding and asking them may run Python code, where a program has put something else in their place.
struct MarkedIds {
  // The sets that (name of a module, names of its variables...) leads to.  False with an exception set.
  bool find(PyObject* names);
  // 1: one of them has the object's id; 0: none; -1: an exception is set.
  int contain(PyObject* object) const;

 private:
  std::vector<Ref> sets;
};

bool init_marked_ids(PyObject* module);

}  // namespace framelift
