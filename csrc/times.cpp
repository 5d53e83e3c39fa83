// See times.h.
#include "times.h"

#include <unordered_map>

#include "reference.h"

namespace framelift {

double Times::scale() const {
  double ran = std::chrono::duration<double>(Steady::now() - began_).count();
  uint64_t counted = ticks() - first_;
  return counted ? ran / (double)counted : 0.0;
}

PyObject* Times::as_list() {
  struct Sum {
    long calls = 0;
    uint64_t own = 0, total = 0;
  };
  std::unordered_map<PyObject*, Sum> sums;
  for (const Row& row : rows_) {
    if (row.apart) continue;
    Sum& sum = sums[row.code];
    sum.calls += row.calls;
    sum.own += row.own;
    const Row* above = row.caller;
    while (above && above->code != row.code) above = above->caller;
    if (!above) sum.total += row.total;  // of a recursive function: its outermost frames
  }
  Ref list = Ref::steal(PyList_New(0));
  double unit = scale();
  for (auto& [code, sum] : sums) {
    double own = (double)sum.own * unit, total = (double)sum.total * unit;
    if (!append(list, Ref::steal(Py_BuildValue("(Oldd)", code, sum.calls, own, total)))) return nullptr;
  }
  return list.release();
}

PyObject* Times::as_tree() {
  Ref list = Ref::steal(PyList_New(0));
  double unit = scale();
  std::vector<const Row*> open(outermost_.rbegin(), outermost_.rend());
  while (!open.empty()) {
    const Row* row = open.back();
    open.pop_back();
    double own = (double)row->own * unit, total = (double)row->total * unit;
    Ref made = Ref::steal(Py_BuildValue("(iOldd)", row->depth, row->code, row->calls, own, total));
    if (!append(list, std::move(made))) return nullptr;
    open.insert(open.end(), row->callees.rbegin(), row->callees.rend());
  }
  return list.release();
}

}  // namespace framelift
