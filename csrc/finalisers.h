// Objects with a finaliser that captured code makes.  Where all of them end inside, at moments that are the program's
// own, their finalisers are captured code like any other; where one does not, the rehearsal is worth nothing.
#pragma once
#include "frame_access.h"
#include "rehearsal.h"

namespace framelift {

// Whether the end of the instances of a class can be watched: the finaliser is a function of Python's, and can be
// taken away from an instance.
bool is_watchable(PyObject* cls);
// An instance of such a class, made as CPython makes it.  New reference or NULL.
PyObject* make_watched(Rehearsal* r, PyObject* cls, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
// Such an instance was made.  -1 with an exception set.
int watch_end(Rehearsal* r, PyObject* object);
// Ends the rehearsal where one of them lives.  False with an exception set.
bool have_ended(Rehearsal* r);
// Captured code runs no more: no finaliser of theirs runs from now on.
void end_finalisers(Rehearsal* r);
// Whether a frame that is about to start is the finaliser of a watched object.
bool is_finaliser(Rehearsal* r, Frame* frame);
// Whether an object that ends now, while this frame runs, ends in plain Python too.
bool is_programs_moment(Rehearsal* r, Frame* frame);
// Ends the rehearsal where the object of a finaliser that starts now may have ended earlier in plain Python.
// Whether it may run.
bool may_finalise(Rehearsal* r, Frame* frame);
// The finaliser is over, and gave this: what it raised would be shown to the user, so that ends the rehearsal.
PyObject* finalised(Rehearsal* r, PyObject* object, PyObject* result);

// A call of captured code is in progress.  When it is over, what the caller's stack alone holds ends with it; plain
// Python may have handed that over to the function.
struct Calling {
  Rehearsal* r;
  Frame* before;
  bool hands_over;
  Calling(Rehearsal* rehearsal, PyObject* callable)
      : r(rehearsal), before(rehearsal->calling), hands_over(!PyCFunction_Check(callable)) {
    r->calling = current_frame(PyThreadState_Get());
  }
  Calling(const Calling&) = delete;
  ~Calling() {
    r->left = hands_over ? r->calling : nullptr;
    r->left_unit = r->left ? frame_unit(r->left) : -1;
    r->calling = before;
  }
};

}  // namespace framelift
