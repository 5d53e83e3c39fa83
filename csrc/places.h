// Where the program is: the instructions its frames stand at, for messages, graphs and reports.
#pragma once
#include <Python.h>

namespace framelift {

// The program's own frames, innermost first, as a flat tuple (code, byte offset, code, byte offset, ...).  framelift's
// frames are left out; the walk ends at the driver, which started the rehearsal.  New reference, or NULL with an
// exception set.
PyObject* program_places();
// (code, byte offset) of the innermost frame that is not framelift's own; a new reference.
PyObject* innermost_place();
bool init_places(PyObject* module);

}  // namespace framelift
