// See times.h.
#include "times.h"

#include "reference.h"

namespace framelift {

PyObject* Times::as_list() {
  double ran = std::chrono::duration<double>(Steady::now() - began_).count();
  uint64_t counted = ticks() - first_;
  double scale = counted ? ran / (double)counted : 0.0;  // ticks have no unit of their own: the clock gives it
  Ref list = Ref::steal(PyList_New(0));
  for (auto& [code, row] : rows_) {
    double own = (double)row.own * scale, total = (double)row.total * scale;
    if (!append(list, Ref::steal(Py_BuildValue("(Oldd)", code, row.calls, own, total)))) return nullptr;
  }
  return list.release();
}

}  // namespace framelift
