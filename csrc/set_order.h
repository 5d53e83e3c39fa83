// The order of sets: it follows from hashes, and those of many objects from where they lie in memory.
#pragma once
#include "rehearsal.h"

namespace framelift {

// The order of a set about to be walked is a fact where it depends on external addresses.
int note_order(Rehearsal* r, PyObject* obj);
// The same for a call of C code, which may walk what it is given.
int note_orders(Rehearsal* r, PyObject* callable, PyObject* const* args, Py_ssize_t nargs);
// The elements of a set of texts, as a list; nothing for other objects, without an error.  For callables that give the
// same for texts in any order: no two of them are equal.
Ref texts_of_set(PyObject* obj);
// How many sets were walked in this process whose order may be another one in the next: strings and addresses
// decide it.
long set_walks();
// Of these, the sets with other elements than strings and numbers.
long unordered_set_walks();
// While it lives, walks over sets that any C code begins for captured code are seen: unpacking, star calls, `list +=
// set` …
struct WalksScope {
  WalksScope();
  ~WalksScope();
};
void init_set_order();

}  // namespace framelift
