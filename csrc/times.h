// Where a rehearsal's time goes, by the function whose frame runs: always on, so that it costs two readings of the
// processor's counter per frame and nothing else.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <chrono>
#include <list>
#include <vector>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace framelift {

using Steady = std::chrono::steady_clock;

class Times {
 public:
  // A function, called from another: equal ways of calls are one row.  Far down, a recursive call is part of the outer
  // one's.
  struct Row {
    PyObject* code;  // owned
    Row* caller;
    int depth;
    bool apart;  // no code of the program's
    long calls = 0, active = 0;
    uint64_t own = 0, total = 0;  // ticks
    std::vector<Row*> callees = {};
  };
  Times() : began_(Steady::now()), first_(ticks()), mark_(first_) {}
  ~Times() {
    for (Row& row : rows_) Py_DECREF(row.code);
  }
  Times(const Times&) = delete;

  // The program's functions as a list of (code, calls, own seconds, total seconds).  New reference, or NULL with an
  // exception set; so too for the next.
  PyObject* as_list();
  // All rows, callees after their callers, as a list of (depth, code, calls, own seconds, total seconds).
  PyObject* as_tree();

  // The row of a code object that the current frame calls; it stays where it is.
  Row* row_of(PyObject* code, bool apart = false) {
    if (current_ && current_->depth > kDeep)
      for (Row* row = current_; row; row = row->caller)
        if (row->code == code) return row;
    std::vector<Row*>& callees = current_ ? current_->callees : outermost_;
    for (Row* row : callees)
      if (row->code == code) return row;
    rows_.push_back({code, current_, current_ ? current_->depth + 1 : 0, apart});
    Py_INCREF(code);  // at once: the next line may run out of memory
    callees.push_back(&rows_.back());
    return &rows_.back();
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
  static constexpr int kDeep = 48;
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

  // Seconds of a tick: ticks have no unit of their own, the clock gives it.
  double scale() const;

  std::list<Row> rows_;  // their addresses stay
  std::vector<Row*> outermost_;
  Row* current_ = nullptr;
  Steady::time_point began_;
  uint64_t first_, mark_;
};

}  // namespace framelift
