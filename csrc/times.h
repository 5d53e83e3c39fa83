// Where a rehearsal's time goes, by the function whose frame runs: always on, so that it costs two readings of the
// processor's counter per frame and nothing else.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <chrono>
#include <unordered_map>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace framelift {

using Steady = std::chrono::steady_clock;

class Times {
 public:
  struct Row {
    long calls = 0, active = 0;
    uint64_t own = 0, total = 0;  // ticks; the total of a recursive function counts its outermost frames
  };
  Times() : began_(Steady::now()), first_(ticks()), mark_(first_) {}
  ~Times() {
    for (auto& [code, row] : rows_) Py_DECREF(code);
  }
  Times(const Times&) = delete;

  // The rows as a list of (code, calls, own seconds, total seconds).  New reference, or NULL with an exception set.
  PyObject* as_list();

  // The row of a code object; it stays where it is.
  Row* row_of(PyObject* code) {
    auto [found, is_new] = rows_.try_emplace(code);
    if (is_new) Py_INCREF(code);
    return &found->second;
  }

  // One frame of a code object, while it lives.
  class Frame {
   public:
    Frame(Times& times, Row* row) : times_(times), row_(row), outer_(times.current_), began_(times.pass()) {
      row_->calls++;
      row_->active++;
      times.current_ = row_;
    }
    ~Frame() {
      uint64_t now = times_.pass();
      if (--row_->active == 0) row_->total += now - began_;
      times_.current_ = outer_;
    }

   private:
    Times& times_;
    Row *row_, *outer_;
    uint64_t began_;
  };

 private:
  static uint64_t ticks() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return (uint64_t)Steady::now().time_since_epoch().count();
#endif
  }
  // What went by since the last change of frames is the current frame's own.
  uint64_t pass() {
    uint64_t now = ticks();
    if (current_) current_->own += now - mark_;
    return mark_ = now;
  }

  std::unordered_map<PyObject*, Row> rows_;  // owned keys; addresses of rows stay
  Row* current_ = nullptr;
  Steady::time_point began_;
  uint64_t first_, mark_;
};

}  // namespace framelift
