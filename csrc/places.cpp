// See places.h.  Walks interpreter frames directly: it runs once per recorded operation and must not make frame
// objects.
#include "places.h"

#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "barrier.h"
#include "connections.h"
#include "frame_access.h"
#include "reference.h"
#include "rehearsal.h"

namespace framelift {

static std::string package;  // path of framelift's own files, with the separator
static std::string driver;   // path of the part of it that starts rehearsals
static std::string wrapper;  // the one file of it whose frames belong to the program

static bool starts_with(PyObject* text, const std::string& prefix) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);  // kept by the text itself
  if (!data) PyErr_Clear();
  return data && !prefix.empty() && (size_t)size >= prefix.size() && memcmp(data, prefix.data(), prefix.size()) == 0;
}

static bool is_complete(Frame* f) {
#if PY_VERSION_HEX >= 0x030c0000
  if (f->owner == FRAME_OWNED_BY_CSTACK) return false;
#endif
  return !is_incomplete(f);
}

static Ref make(PyCodeObject** codes, const int* offsets, int n) {
  return make_tuple(2 * n, [&](Py_ssize_t i) {
    return i % 2 ? Ref::steal(PyLong_FromLong(offsets[i / 2])) : Ref::new_ref((PyObject*)codes[i / 2]);
  });
}

static auto& tuples = *new std::unordered_map<std::string, Ref>;

static void forget_tuples() {
  auto old = std::move(tuples);  // lets go at its end, when the table is a new one
  tuples.clear();
}

static PyObject* forget_places(PyObject*, PyObject*) {
  forget_tuples();
  Py_RETURN_NONE;
}

// Layers repeat each other's places: one tuple serves them all, and whoever makes text of it can go by its identity.
static PyObject* known(PyCodeObject** codes, const int* offsets, int n) {
  constexpr size_t kMostKnown = 4096;
  std::string key((const char*)codes, (size_t)n * sizeof *codes);
  key.append((const char*)offsets, (size_t)n * sizeof *offsets);
  auto found = tuples.find(key);
  if (found != tuples.end()) return Py_NewRef(found->second.get());
  if (tuples.size() >= kMostKnown) forget_tuples();
  Ref places = make(codes, offsets, n);
  if (!places) return nullptr;
  tuples.emplace(std::move(key), Ref::new_ref(places.get()));  // keeps the codes, so that their addresses stay theirs
  return places.release();
}

PyObject* program_places() {
  constexpr int kMost = 256;  // frames kept of a very deep recursion: the innermost
  PyCodeObject* codes[kMost];
  int offsets[kMost];
  int n = 0;
  for (Frame* f = current_frame(PyThreadState_Get()); f && n < kMost; f = f->previous) {
    if (!is_complete(f)) continue;
    PyCodeObject* code = frame_code(f);
    if (starts_with(code->co_filename, package) && !starts_with(code->co_filename, wrapper)) {
      if (starts_with(code->co_filename, driver)) break;
      continue;
    }
    codes[n] = code;
    offsets[n++] = frame_unit(f) * (int)sizeof(_Py_CODEUNIT);
  }
  return known(codes, offsets, n);
}

static PyObject* places(PyObject*, PyObject*) { return program_places(); }

// The innermost frame that is not framelift's own; the outermost one where all are.
PyObject* innermost_place() {
  Frame* found = nullptr;
  for (Frame* f = current_frame(PyThreadState_Get()); f; f = f->previous) {
    if (!is_complete(f)) continue;
    found = f;
    if (!starts_with(frame_code(f)->co_filename, package)) break;
  }
  if (!found) Py_RETURN_NONE;
  PyCodeObject* code = frame_code(found);
  int offset = frame_unit(found) * (int)sizeof(_Py_CODEUNIT);
  return known(&code, &offset, 1);
}

// A local variable of a frame, as its f_locals has it; None where it is unbound.
static PyObject* local_of(Frame* f, PyCodeObject* code, PyObject* name) {
  for (int i = 0; i < code->co_nlocalsplus; i++) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(code->co_localsplusnames, i), name) != 0) continue;
    PyObject* value = frame_value(f, i);
    bool is_plain = !(_PyLocals_GetKind(code->co_localspluskinds, i) & (CO_FAST_CELL | CO_FAST_FREE));
    if (value && !is_plain && PyCell_Check(value)) value = PyCell_GET(value);
    return value ? value : Py_None;
  }
  return Py_None;
}

// frames_named(qualname, variable, codes that end the walk): [(code, value of the variable)], innermost first.
static PyObject* frames_named(PyObject*, PyObject* args) {
  PyObject *name, *variable, *ends;
  if (!PyArg_ParseTuple(args, "UUO!", &name, &variable, &PyTuple_Type, &ends)) return nullptr;
  Ref found = Ref::steal(PyList_New(0));
  for (Frame* f = current_frame(PyThreadState_Get()); found && f; f = f->previous) {
    if (!is_complete(f)) continue;
    PyCodeObject* code = frame_code(f);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(ends); i++)
      if (PyTuple_GET_ITEM(ends, i) == (PyObject*)code) return found.release();
    if (code->co_qualname != name && PyUnicode_Compare(code->co_qualname, name) != 0) continue;
    if (!append(found, Ref::steal(PyTuple_Pack(2, (PyObject*)code, local_of(f, code, variable))))) return nullptr;
  }
  return found.release();
}

// What a table knows by the address of an object: None where it knows nothing.  NULL with an exception set.
static PyObject* known_of(PyObject* table, const void* object) {
  Ref number = Ref::steal(PyLong_FromVoidPtr((void*)object));
  PyObject* found = number ? PyDict_GetItemWithError(table, number.get()) : nullptr;
  return found || PyErr_Occurred() ? found : Py_None;
}

static bool is_pair(PyObject* object) { return PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == 2; }

// named_stack(qualname, variable, codes that end the walk, known codes, known values): what is known of the value of
// the variable in each of these frames, as {key: shown}, outermost first; None where a code or value is not known.
// Known are, by the address: (code, whether it counts), and (whatever, (key, shown)).
static PyObject* named_stack(PyObject*, PyObject* args) {
  PyObject *name, *variable, *ends, *codes, *values;
  if (!PyArg_ParseTuple(args, "UUO!O!O!", &name, &variable, &PyTuple_Type, &ends, &PyDict_Type, &codes, &PyDict_Type,
                        &values))
    return nullptr;
  std::vector<PyObject*> rows;
  bool ended = false;
  for (Frame* f = current_frame(PyThreadState_Get()); f && !ended; f = f->previous) {
    if (!is_complete(f)) continue;
    PyCodeObject* code = frame_code(f);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(ends) && !ended; i++)
      ended = PyTuple_GET_ITEM(ends, i) == (PyObject*)code;
    if (ended || (code->co_qualname != name && PyUnicode_Compare(code->co_qualname, name) != 0)) continue;
    PyObject* counts = known_of(codes, code);
    if (!counts || !is_pair(counts)) return counts ? Py_NewRef(Py_None) : nullptr;
    if (PyTuple_GET_ITEM(counts, 1) != Py_True) continue;
    PyObject* value = known_of(values, local_of(f, code, variable));
    if (!value || !is_pair(value)) return value ? Py_NewRef(Py_None) : nullptr;
    rows.push_back(PyTuple_GET_ITEM(value, 1));
  }
  Ref found = Ref::steal(PyDict_New());
  for (auto row = rows.rbegin(); found && row != rows.rend(); ++row)
    if (!is_pair(*row) || PyDict_SetItem(found.get(), PyTuple_GET_ITEM(*row, 0), PyTuple_GET_ITEM(*row, 1)) < 0)
      return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  return found.release();
}

static PyObject* place(PyObject*, PyObject*) { return innermost_place(); }

// location(code, byte offset): (line, end line, column, end column); None where CPython does not know one.
static PyObject* location(PyObject*, PyObject* args) {
  PyObject* code;
  int offset, found[4];
  if (!PyArg_ParseTuple(args, "O!i", &PyCode_Type, &code, &offset)) return nullptr;
  if (!PyCode_Addr2Location((PyCodeObject*)code, offset, &found[0], &found[2], &found[1], &found[3]))
    found[0] = found[1] = found[2] = found[3] = -1;
  return make_tuple(4, [&](Py_ssize_t i) {
           return found[i] < 0 ? Ref::new_ref(Py_None) : Ref::steal(PyLong_FromLong(found[i]));
         })
      .release();
}

static PyObject* note_place(PyObject*, PyObject*) {
  Rehearsal* r = current_rehearsal();
  if (!r) Py_RETURN_NONE;
  r->generators.push_back({root_unit(r), r->root_probes});
  return Py_BuildValue("(il)", root_unit(r), r->root_probes);
}

template <std::string& kept>
static bool take_path(PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  if (text) kept = text;
  return text != nullptr;
}

static Connections connections({{"own_files", nullptr, take_path<package>},
                                {"files_that_rehearse", nullptr, take_path<driver>},
                                {"module_wrapper_file", nullptr, take_path<wrapper>}});

static MethodTable functions({
    method<note_place, METH_NOARGS>("note_place",
                                    "A break may have to come before this call of the root's: (code unit, probes "
                                    "called), also kept for the session."),
    method<places, METH_NOARGS>("places",
                                "The program's frames, innermost first: (code, byte offset, code, byte offset, ...)."),
    method<place, METH_NOARGS>("place", "The innermost frame of the program: (code, byte offset)."),
    method<frames_named, METH_VARARGS>("frames_named",
                                       "frames_named(qualname, variable, codes): the frames of code of this name, "
                                       "innermost first, up to one of these codes: [(code, its local variable)]."),
    method<named_stack, METH_VARARGS>("named_stack",
                                      "named_stack(qualname, variable, codes, known codes, known values): what is "
                                      "known of the variable in these frames, outermost first; None: not all is."),
    method<location, METH_VARARGS>("location",
                                   "Where an instruction is written: (line, end line, column, end column) or None."),
    method<forget_places, METH_NOARGS>("forget_places", "Let go of the tuples that `places` gave."),
});

bool init_places(PyObject* module) { return add_functions(module, functions); }

}  // namespace framelift
