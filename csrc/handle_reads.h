// Reads of a handle's attributes that the native core answers itself.
#pragma once
#include "rehearsal.h"

namespace framelift {

// `obj.name` as boundary/attributes/instances.py: read_instance answers it, with the same guards in the same order.
// A new reference; NULL without an exception: the session answers.
PyObject* read_handle(Rehearsal* r, PyObject* obj, PyObject* name);
// The same for `object.__getattribute__(obj, name)`, past a `__getattribute__` of the class (generic_read there).
PyObject* read_generic(Rehearsal* r, PyObject* obj, PyObject* name);
// What `super().name` was found to be before, bound to the receiver (boundary/attributes/classes.py: read_super).
PyObject* read_inherited(Rehearsal* r, PyObject* super, PyObject* name);
// As is_empty_table there: whether `obj.name`, which is asked for its truth alone, is an empty table.  NoTable: it is
// read as any attribute; Unknown: the session answers; Failed: with an exception set.
enum class Tested { Empty, NoTable, Unknown, Failed };
Tested test_table(Rehearsal* r, PyObject* obj, PyObject* name);
bool init_handle_reads(PyObject* module);

}  // namespace framelift
