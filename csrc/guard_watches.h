// Dictionaries that CPython itself watches: from 3.12 on it calls back before a watched one changes or is freed, so
// that nobody need look at its version while that has not happened.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>

namespace framelift {

// Shared by all dictionaries that one settled program rests on.
struct Touched {
  bool is_so = false;
};

// False before 3.12, and where others have taken all of CPython's watchers.
bool can_watch_dicts();
// From now on `touched` is set as soon as the dictionary is about to change or to be freed.  The first time this gives
// the dictionary another version, without a call.
void watch_dict(PyObject* dict, const std::shared_ptr<Touched>& touched);

}  // namespace framelift
