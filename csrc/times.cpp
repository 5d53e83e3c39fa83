// See times.h.
#include "times.h"

namespace framelift {

PyObject* Times::as_list() {
  double ran = std::chrono::duration<double>(Steady::now() - began_).count();
  uint64_t counted = ticks() - first_;
  double scale = counted ? ran / (double)counted : 0.0;  // ticks have no unit of their own: the clock gives it
  PyObject* list = PyList_New(0);
  for (auto& [code, row] : rows_) {
    PyObject* made = list ? Py_BuildValue("(Oldd)", code, row.calls, (double)row.own * scale, (double)row.total * scale) : nullptr;
    if (made && PyList_Append(list, made) < 0) Py_CLEAR(made);
    if (!made) Py_CLEAR(list);
    Py_XDECREF(made);
  }
  return list;
}

}  // namespace framelift
