// Entry: guards, what to run, and how often it ran; and trying the entries of a list in turn.
#include <alloca.h>

#include <cstring>

#include "barrier.h"
#include "connections.h"
#include "entry_steps.h"
#include "frame_access.h"
#include "guard.h"
#include "hints.h"
#include "outside.h"
#include "ranges.h"

namespace framelift {

struct EntryObject {
  PyObject_HEAD GuardProgramObject* program;
  PyObject* run;  // callable(inputs, externals), or None: run the frame eagerly
  PyObject* info;
  PyObject* steps;  // what `run` does, where that is known: then it needs no frame
  unsigned long long hits;
  char replayable;  // the run changes nothing before it can fail: a failure is left to plain Python, with its own lines
                    // and effects
};
static PyTypeObject Entry_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

static void take_steps(EntryObject* entry, PyObject* steps) {
  if (steps && entry->program && are_steps(steps, entry->program->program->externals.size()))
    Py_XSETREF(entry->steps, Py_NewRef(steps));
}

static PyObject* entry_create(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"program", "run", "info", "replayable", "steps", nullptr};
  PyObject *program, *run, *info = Py_None, *steps = Py_None;
  int replayable = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|OpO", (char**)names, &GuardProgram_Type, &program, &run, &info,
                                   &replayable, &steps))
    return nullptr;
  EntryObject* self = (EntryObject*)type->tp_alloc(type, 0);
  if (!self) return nullptr;
  self->program = (GuardProgramObject*)Py_NewRef(program);
  self->run = Py_NewRef(run);
  self->info = Py_NewRef(info);
  take_steps(self, steps);
  self->replayable = (char)replayable;
  return (PyObject*)self;
}

static bool is_dead(EntryObject* entry) { return !entry->program || entry->program->program->dead(); }

static PyObject* entry_dead(PyObject* self, void*) { return PyBool_FromLong(is_dead((EntryObject*)self)); }

static PyMemberDef entry_members[] = {
    {"program", T_OBJECT, offsetof(EntryObject, program), READONLY, "the guards"},
    {"run", T_OBJECT, offsetof(EntryObject, run), READONLY,
     "called with (inputs, externals); None: the frame runs eagerly"},
    {"steps", T_OBJECT, offsetof(EntryObject, steps), READONLY, "what `run` does, for entries that run often, or None"},
    {"info", T_OBJECT, offsetof(EntryObject, info), 0, "any object"},
    {"replayable", T_BOOL, offsetof(EntryObject, replayable), READONLY, "a run that fails is run again eagerly"},
    {"hits", T_ULONGLONG, offsetof(EntryObject, hits), 0, "how often the guards held"},
    {nullptr, 0, 0, 0, nullptr}};
static PyObject* entry_inputs_for(PyObject* self, PyObject* locals);
static MethodTable methods_of_entry({
    method<entry_inputs_for, METH_O>("inputs_for", "inputs_for(locals): the inputs where the guards hold, else None"),
});
static GetterTable entry_getters({getter<entry_dead>("dead", "Its guards can never hold again.")});

// The values that guards hand out, in memory of the caller's; owned references, NULL where there is none.
struct Slots {
  PyObject** values;
  int32_t count;
  Slots(PyObject** memory, int32_t n) : values(memory), count(n) { memset(values, 0, (size_t)count * sizeof *values); }
  Slots(const Slots&) = delete;
  ~Slots() { empty(0); }
  void empty(int32_t from) {
    keep(from);
    count = 0;
  }
  void keep(int32_t first) {
    for (int32_t i = first; i < count; i++) Py_CLEAR(values[i]);
    if (first < count) count = first;
  }
};

// The slots' values in the order asked for; each reference moves at its last use.
static Ref take_values(const std::vector<int32_t>& which, const std::vector<bool>& last_use, size_t offset,
                       Slots& slots) {
  Ref tuple = Ref::steal(PyTuple_New((Py_ssize_t)which.size()));
  for (size_t i = 0; tuple && i < which.size(); i++) {
    PyObject*& value = slots.values[which[i]];
    PyTuple_SET_ITEM(tuple.get(), (Py_ssize_t)i, last_use[offset + i] ? value : Py_NewRef(value));
    if (last_use[offset + i]) value = nullptr;
  }
  return tuple;
}

// As take_values, where the first slots are just what is asked for.
static Ref take_first(size_t count, Slots& slots) {
  Ref tuple = Ref::steal(PyTuple_New((Py_ssize_t)count));
  if (!tuple || !count) return tuple;
  memcpy(&PyTuple_GET_ITEM(tuple.get(), 0), slots.values, count * sizeof(PyObject*));
  memset(slots.values, 0, count * sizeof(PyObject*));
  return tuple;
}

static Ref take_inputs(Program& program, Slots& slots) {
  size_t count = program.inputs.size();
  return program.inputs_first ? take_first(count, slots) : take_values(program.inputs, program.last_use, 0, slots);
}

static Ref run_entry(EntryObject* entry, Slots& slots) {
  Program& program = *entry->program->program;
  size_t count = program.inputs.size();
  if (entry->steps && steps_are_of(entry->steps, entry->run)) {
    slots.keep(program.handed_out);
    return run_steps(entry->steps, {slots.values, program.inputs, program.externals, program.inputs_first});
  }
  Ref inputs = take_inputs(program, slots);
  Ref externals = inputs ? take_values(program.externals, program.last_use, count, slots) : Ref();
  slots.empty(program.inputs_first && inputs ? (int32_t)count : 0);
  if (!externals) return nullptr;
  PyObject* arguments[] = {nullptr, inputs.get(), externals.get()};
  return Ref::steal(PyObject_Vectorcall(entry->run, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

static unsigned long long often = 8;  // runs after which the steps of an entry are worth making

static PyObject* plain = nullptr;  // what a run returns to say: run the frame eagerly
static PyObject* miss = nullptr;   // what a run returns to say that this entry is not for this call

static thread_local PyObject* failure = nullptr;  // (info, exception) of a graph that failed, until it is taken
static PyObject* failure_teller = nullptr;        // Python: (info, exception), called when plain Python did not fail
static PyObject* hook_judge = nullptr;            // Python: (exception): a hook of the program raised it

// The exception that is set, kept with its entry's info and without frames, which hold the program's objects.  False:
// it came from outside, a signal handler or a hook on saved tensors for instance, and stays set.
static bool keep_failure(EntryObject* entry) {
  SavedError error;
  error.normalize();
  PyObject* value = error.value();
  if (value && PyExceptionInstance_Check(value)) {
    if (error.traceback()) PyException_SetTraceback(value, error.traceback());
    Ref of_hook = Ref::steal(hook_judge ? PyObject_CallOneArg(hook_judge, value) : nullptr);
    PyErr_Clear();
    if (of_hook.get() == Py_True || came_from_outside(value)) {
      error.restore();
      return false;
    }
    PyException_SetTraceback(value, Py_None);
    PyException_SetContext(value, nullptr);
    PyException_SetCause(value, nullptr);
    Py_XSETREF(failure, PyTuple_Pack(2, entry->info, value));
  }
  PyErr_Clear();
  return true;
}

PyObject* take_failure() {
  PyObject* taken = failure;
  failure = nullptr;
  return taken;
}

void report_failure(PyObject* stolen, PyObject** result) {
  Ref taken = Ref::steal(stolen);
  if (!taken || !*result || !failure_teller) return;
  UncapturedScope own;
  PyObject *info = PyTuple_GET_ITEM(stolen, 0), *exception = PyTuple_GET_ITEM(stolen, 1);
  Ref done = Ref::steal(PyObject_CallFunctionObjArgs(failure_teller, info, exception, nullptr));
  if (!done) Py_CLEAR(*result);
}

// undone(): the run that is about to fail has taken back what it changed, so plain Python may have the call.
static thread_local bool taken_back = false;
static PyObject* undone(PyObject*, PyObject*) {
  taken_back = true;
  Py_RETURN_NONE;
}

// stands(): what the run is about to raise is the compiler's own failure, and leaves the call.
static thread_local bool error_stands = false;
static PyObject* stands(PyObject*, PyObject*) {
  error_stands = true;
  Py_RETURN_NONE;
}

// name_ranges_as_torch(on): ranges of profilers have TorchDynamo's names from now on.
static PyObject* name_ranges_as_torch(PyObject*, PyObject* on) {
  ranges_have_torch_names = on == Py_True;
  Py_RETURN_NONE;
}

static MethodTable entry_methods({
    method<name_ranges_as_torch, METH_O>("name_ranges_as_torch",
                                         "name_ranges_as_torch(on): ranges of profilers have TorchDynamo's names"),
    method<stands, METH_NOARGS>(
        "stands", "stands(): what the run is about to raise leaves the call, and the frame is not run eagerly"),
    method<undone, METH_NOARGS>("undone", "undone(): the run that is about to fail has taken back what it changed"),
});

// The guards hold: run the entry.  As try_entries.
static int run_held_entry(EntryObject* entry, Slots& slots, PyObject** result) {
  entry->hits++;
  if (entry->run == Py_None) return 2;
  Ref made;
  {
    UncapturedScope graph;  // its own frames are nobody's to capture, also where the caller's frames are
    Range range("run", entry->info);
    ExtraDepth depth(ExtraDepth::kEntry);
    taken_back = error_stands = false;
    made = run_entry(entry, slots);
  }
  if (!made) {
    // An external exception may have struck while a region of torch's was being left; guards held in this state.
    if (entry->program && entry->program->program->has_state) {
      KeepError keep;
      entry->program->program->state.put_back();
    }
    if (error_stands || !(entry->replayable || taken_back) || !PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    return keep_failure(entry) ? 2 : -1;
  }
  if (made.get() == plain) return 2;
  if (made.get() == miss) return 0;  // the run itself looked further than guards can, before it did anything
  *result = made.release();
  if (entry->hits != often || entry->steps) return 1;
  Ref steps = make_steps(entry->run);
  if (!steps) Py_CLEAR(*result);
  take_steps(entry, steps.get());
  return *result ? 1 : -1;
}

bool is_entry(PyObject* object) { return Py_IS_TYPE(object, &Entry_Type); }

int try_entry(PyObject* object, PyObject* const* locals, Py_ssize_t n, PyObject** result) {
  EntryObject* entry = (EntryObject*)object;
  if (is_dead(entry)) return 0;
  constexpr size_t kOnStack = 32768;
  Program& program = *entry->program->program;
  size_t bytes = (size_t)program.slot_count * sizeof(PyObject*);
  std::unique_ptr<PyObject*[]> large;
  if (bytes > kOnStack) large.reset(new PyObject*[(size_t)program.slot_count]);
  Slots slots(large ? large.get() : (PyObject**)alloca(bytes + 1), program.slot_count);
  int node, check;
  Outcome outcome;
  {
    Range range("guards", entry->info);
    outcome = program.check(locals, n, slots.values, &node, &check);
  }
  if (outcome == Outcome::Error || !verify(entry->program, locals, n, outcome, node, check)) return -1;
  return outcome == Outcome::Holds ? run_held_entry(entry, slots, result) : 0;
}

static PyObject* entry_inputs_for(PyObject* self, PyObject* locals) {
  EntryObject* entry = (EntryObject*)self;
  if (!PyTuple_Check(locals)) return PyErr_Format(PyExc_TypeError, "inputs_for(locals)");
  if (is_dead(entry)) Py_RETURN_NONE;
  Program& program = *entry->program->program;
  std::unique_ptr<PyObject*[]> memory(new PyObject*[(size_t)program.slot_count + 1]);
  Slots slots(memory.get(), program.slot_count);
  int node, check;
  PyObject* const* values = &PyTuple_GET_ITEM(locals, 0);
  Outcome outcome = program.check(values, PyTuple_GET_SIZE(locals), slots.values, &node, &check);
  if (outcome == Outcome::Error) return nullptr;
  if (outcome != Outcome::Holds) Py_RETURN_NONE;
  return take_inputs(program, slots).release();
}

// Try one place of the list.  As try_entries; *at is moved on.
static int try_place(PyObject* entries, Py_ssize_t* at, PyObject* const* locals, Py_ssize_t n, PyObject** result) {
  PyObject* item = PyList_GET_ITEM(entries, *at);
  if (!is_entry(item)) {
    PyErr_SetString(PyExc_TypeError, "entries hold Entry objects");
    return -1;
  }
  Ref kept = Ref::new_ref(item);
  if (is_dead((EntryObject*)item)) return PyList_SetSlice(entries, *at, *at + 1, nullptr);
  (*at)++;
  return try_entry(item, locals, n, result);
}

int try_entries(PyObject* entries, PyObject* const* locals, Py_ssize_t n, PyObject** result) {
  if (!PyList_Check(entries)) {
    PyErr_SetString(PyExc_TypeError, "entries are a list");
    return -1;
  }
  const void* tried = nullptr;
  bool several = PyList_GET_SIZE(entries) > 1;
  uint64_t look = several ? look_of(locals, n) : 0;
  if (several) {
    const Hint& hint = hint_for(entries, look);
    bool known = hint.entries == entries && hint.look == look && hint.place < PyList_GET_SIZE(entries) &&
                 PyList_GET_ITEM(entries, hint.place) == hint.entry;
    Py_ssize_t at = hint.place;
    tried = known ? hint.entry : nullptr;
    int verdict = known ? try_place(entries, &at, locals, n, result) : 0;
    if (verdict != 0) return verdict;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(entries);) {  // the list may change while Python code runs
    const void* entry = PyList_GET_ITEM(entries, i);
    if (entry == tried) {
      i++;
      continue;
    }
    Py_ssize_t place = i;
    int verdict = try_place(entries, &i, locals, n, result);
    if (verdict > 0 && several) hint_for(entries, look) = {entries, entry, look, place};
    if (verdict != 0) return verdict;
  }
  return 0;
}

static PyObject* chooser = nullptr;  // Python: (entries, locals, compiled) -> the entry that runs; None: it is a miss

static Connections connections({{"failure_teller", &failure_teller},  // f(info, exception): the graph alone failed
                                {"hook_judge", &hook_judge},          // f(exception) -> bool
                                {"entry_chooser", &chooser}});

int choose_entry(PyObject* compiled, PyObject* entries, PyObject* const* locals, Py_ssize_t n, PyObject** result) {
  if (!chooser || !PyList_Check(entries)) return try_entries(entries, locals, n, result);
  Ref tuple = tuple_of(locals, n), choose = Ref::new_ref(chooser), chosen;
  if (!tuple) return -1;
  {
    UncapturedScope own;
    PyObject* of = compiled ? compiled : Py_None;
    chosen = Ref::steal(PyObject_CallFunctionObjArgs(choose.get(), entries, tuple.get(), of, nullptr));
  }
  if (!chosen) return -1;
  return is_entry(chosen.get()) ? try_entry(chosen.get(), locals, n, result) : 0;
}

static PyObject* steps_after(PyObject*, PyObject* value) {
  unsigned long long runs = PyLong_AsUnsignedLongLong(value);
  if (PyErr_Occurred()) return nullptr;
  return PyLong_FromUnsignedLongLong(std::exchange(often, runs));
}

static MethodTable choosing({
    method<steps_after, METH_O>(
        "steps_after", "steps_after(runs): when an entry becomes native steps; gives the number before"),
});

bool init_entries(PyObject* module) {
  miss = PyObject_CallNoArgs((PyObject*)&PyBaseObject_Type);
  if (!miss || PyModule_AddObjectRef(module, "MISS", miss) < 0) return false;
  plain = PyObject_CallNoArgs((PyObject*)&PyBaseObject_Type);
  if (!plain || PyModule_AddObjectRef(module, "PLAIN", plain) < 0) return false;
  define<EntryObject>(Entry_Type, "framelift._core.Entry", slot<entry_create>, Py_TPFLAGS_HAVE_GC,
         "Entry(program, run, info=None, replayable=False, steps=None)");
  Members<EntryObject, &EntryObject::program, &EntryObject::run, &EntryObject::info, &EntryObject::steps>::put_in(
      Entry_Type);
  Entry_Type.tp_members = entry_members;
  Entry_Type.tp_getset = entry_getters.rows;
  Entry_Type.tp_methods = methods_of_entry.rows;
  return PyModule_AddType(module, &Entry_Type) == 0 && add_functions(module, entry_methods) &&
         add_functions(module, choosing);
}

}  // namespace framelift
