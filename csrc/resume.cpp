// Breaks: how a frame is handed over in the midst of its work, and the loop that goes on with it.  A break never
// recurses: plain part, captured part, plain part, ... follow each other in `drive`.
#include "resume.h"

#include <structseq.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "barrier.h"
#include "connections.h"
#include "frame_access.h"
#include "reference.h"

namespace framelift {

static PyObject* stop_type = nullptr;   // raised out of a twin that was stopped
static PyObject* null_mark = nullptr;   // stands for an empty slot of the stack, and for an unbound local
static PyObject* call_probe = nullptr;  // a twin has it where its original has NULL
static PyTypeObject* Handed_Type = nullptr;
static PyTypeObject* Handover_Type = nullptr;  // what an entry that ends at a break returns
static PyObject *plain_step = nullptr, *resume_step = nullptr, *throw_step = nullptr, *end_is_seen = nullptr;
static std::unordered_set<PyTypeObject*> unseen;  // types for whose objects `end_is_seen` says no; they never die
static PyObject *const name_depth = interned("depth"), *const name_locals = interned("locals");
static PyObject *const name_cells = interned("cells"), *const name_handled = interned("handled");
static PyObject *const name_break_off = interned("break_off"), *const name_steps = interned("steps");
static PyObject *const name_names = interned("names"), *const name_dead = interned("dead");
static PyObject *const name_offsets = interned("offsets"), *const name_miss = interned("miss");
static PyObject* const name_breaks = interned("breaks");

void raise_stop() { PyErr_SetNone(stop_type); }
bool is_stop() { return PyErr_ExceptionMatches(stop_type); }
bool is_handover(PyObject* value) { return value && Py_TYPE(value) == Handover_Type; }

static Ref value_at(Frame* frame, Py_ssize_t at) {
  if (is_number(frame->localsplus[at])) return Ref::steal(PyLong_FromSsize_t(number_in(frame->localsplus[at])));
  PyObject* value = frame_value(frame, at);
  return Ref::new_ref(!value || value == call_probe ? null_mark : value);
}

// A slot of the stack as the frame's original has it: a twin's probe is below the callable, a NULL may be above it.
static Ref stack_at(Frame* frame, Py_ssize_t base, Py_ssize_t depth, Py_ssize_t i) {
  auto is_probe = [&](Py_ssize_t k) { return k >= 0 && k + 1 < depth && frame_value(frame, base + k) == call_probe; };
  if (kNullAboveCallable) i += is_probe(i) ? 1 : is_probe(i - 1) ? -1 : 0;
  return value_at(frame, base + i);
}

static Ref values_at(Frame* frame, PyObject* stop, PyObject* name) {
  // Safe: a stop is framelift's own record.
  Ref places = Ref::steal(PyObject_GetAttr(stop, name));
  if (!places) return nullptr;
  return make_tuple(PyTuple_GET_SIZE(places.get()),
                    [&](Py_ssize_t i) { return value_at(frame, PyLong_AsSsize_t(PyTuple_GET_ITEM(places.get(), i))); });
}

// The calling frame as (stop, stack, locals, cells, handled exception or None).
static Ref read_frame(PyObject* stop) {
  PyThreadState* ts = PyThreadState_Get();
  Frame* frame = current_frame(ts);
  // Safe: a stop is framelift's own record.
  Ref number = Ref::steal(PyObject_GetAttr(stop, name_depth)), flag = Ref::steal(PyObject_GetAttr(stop, name_handled));
  Ref locals = values_at(frame, stop, name_locals), cells = values_at(frame, stop, name_cells);
  if (!number || !flag || !locals || !cells) return nullptr;
  Py_ssize_t base = frame_code(frame)->co_nlocalsplus;
  Py_ssize_t depth = PyLong_AsSsize_t(number.get());
  Ref stack = make_tuple(depth, [&](Py_ssize_t i) { return stack_at(frame, base, depth, i); });
  Ref result = Ref::steal(stack ? PyStructSequence_New(Handed_Type) : nullptr);
  if (!result) return nullptr;
  PyObject* handled = flag.get() == Py_True ? *handled_at(ts) : nullptr;
  PyStructSequence_SET_ITEM(result.get(), 0, Py_NewRef(stop));
  PyStructSequence_SET_ITEM(result.get(), 1, stack.release());
  PyStructSequence_SET_ITEM(result.get(), 2, locals.release());
  PyStructSequence_SET_ITEM(result.get(), 3, cells.release());
  PyStructSequence_SET_ITEM(result.get(), 4, Py_NewRef(handled ? handled : Py_None));
  return result;
}

// hand_over(stop): what plain code returns at a stop.  The frame gives its stack away: where a traceback keeps the
// frame, an exception on that stack would otherwise hold itself, and all the frame had, until the collector comes.
static PyObject* hand_over(PyObject*, PyObject* stop) {
  if (PyErr_Occurred())
    return nullptr;  // C code may give a result and an exception at once: a released memoryview's iterator
  Ref handed = read_frame(stop);
  if (!handed) return nullptr;
  Frame* frame = current_frame(PyThreadState_Get());
  Py_ssize_t depth = PyTuple_GET_SIZE(PyStructSequence_GET_ITEM(handed.get(), 1));
  Py_ssize_t base = frame_code(frame)->co_nlocalsplus;
  for (Py_ssize_t i = 0; i < depth; i++) clear_slot(frame->localsplus[base + i]);  // the record holds them too
  return handed.release();
}

// The session plans the exit while the frame is still whole.
static PyObject* stop_here(PyObject* place) {
  Rehearsal* r = current_rehearsal();
  if (!r) Py_RETURN_NONE;
  if (r->stopped) {
    raise_stop();
    return nullptr;
  }
  if (r->interrupt) {
    PyErr_SetObject((PyObject*)Py_TYPE(r->interrupt), r->interrupt);
    return nullptr;
  }
  if (current_frame(PyThreadState_Get()) != r->root_frame || r->stop_at < 0 || r->root_probes < r->stop_at)
    Py_RETURN_NONE;
  Ref handed = read_frame(place);
  if (!handed) return nullptr;
  PyObject* args[] = {handed.get()};
  if (!Ref::steal(ask_session(r, name_break_off, args, 1))) return nullptr;
  r->stopped = true;
  end_generators(r);
  raise_stop();
  return nullptr;
}

// stop(stop): the probe of a twin that stops.  It is outside of every handler, so none lets go of what the frame holds:
// an exception bound by `as` would hold itself through its traceback, and through the frames before this one all that
// the capture knows of the program.
static PyObject* stop(PyObject*, PyObject* place) {
  PyObject* handover = stop_here(place);
  if (handover) return handover;
  KeepError keep;
  Frame* frame = current_frame(PyThreadState_Get());
  for (Py_ssize_t i = 0, n = frame_code(frame)->co_nlocalsplus; i < n; i++) clear_slot(frame->localsplus[i]);
  return nullptr;
}

#if PY_VERSION_HEX >= 0x030e0000
// tag_offsets(slots): numbers in these slots of the calling frame's stack become offsets, as RERAISE takes them.
static PyObject* tag_offsets(PyObject*, PyObject* slots) {
  if (!PyTuple_CheckExact(slots)) return PyErr_Format(PyExc_TypeError, "tag_offsets takes a tuple");
  Frame* frame = current_frame(PyThreadState_Get());
  Py_ssize_t base = frame_code(frame)->co_nlocalsplus;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(slots); i++) {
    Slot& slot = frame->localsplus[base + PyLong_AsSsize_t(PyTuple_GET_ITEM(slots, i))];
    Py_ssize_t offset = is_number(slot) ? number_in(slot) : PyLong_AsSsize_t(object_in(slot));
    clear_slot(slot);
    slot = slot_of_number(offset);
  }
  Py_RETURN_NONE;
}
#else
static PyObject* tag_offsets(PyObject*, PyObject*) { Py_RETURN_NONE; }
#endif

// handle_from_here(exception): what code inside an `except` block finds as the exception being handled.
static PyObject* handle_from_here(PyObject*, PyObject* exception) {
  if (!PyExceptionInstance_Check(exception)) return PyErr_Format(PyExc_TypeError, "it takes an exception");
  Py_XSETREF(*handled_at(PyThreadState_Get()), Py_NewRef(exception));
  Py_RETURN_NONE;
}

// Ask framelift's own Python code.
static Ref ask(PyObject* step, PyObject* const* args, size_t count) {
  ThreadState& state = thread_state();
  ThreadState before = state;
  state.mode = Mode::Paused;
  state.context = nullptr;
  ExtraDepth depth(ExtraDepth::kStep);
  Ref answer = Ref::steal(PyObject_Vectorcall(step, args, count, nullptr));
  thread_state() = before;
  return answer;
}

// While it lives, the values in `arguments` are the frame's of `function` alone as soon as that begins.
struct Given {
  Given(PyObject* function, PyObject* arguments) { give_to(function, arguments); }
  Given(const Given&) = delete;
  ~Given() { give_to(nullptr, nullptr); }
};

// The exception that is set, of a capture or an entry, is raised in the frame that would have gone on, so that its
// `with` blocks end and its handlers see it.  Where the frame has none at that place the exception stays as it is.
static Ref throw_into(PyObject* compiled, PyObject* resumed, PyObject* arguments) {
  SavedError error;
  error.normalize();
  if (error.traceback()) PyException_SetTraceback(error.value(), error.traceback());
  PyObject* args[] = {compiled, resumed, arguments, error.value()};
  Ref next = ask(throw_step, args, 4);
  if (!next || next.get() == Py_None) {
    error.restore();
    return nullptr;
  }
  PyObject *code = PyTuple_GET_ITEM(next.get(), 0), *values = PyTuple_GET_ITEM(next.get(), 1);
  Given given(code, values);
  return Ref::steal(run_plain(compiled, code, &PyTuple_GET_ITEM(values, 0), (size_t)PyTuple_GET_SIZE(values), nullptr));
}

// In what condition a frame was handed over: the values that go on with it, and a text that tells conditions apart.
struct Condition {
  std::vector<PyObject*> values;  // borrowed from the record of the frame
  std::string text;
  std::vector<bool> kept;  // which of the frame's locals are among the values
};

// Whether it may matter when a local dies that nothing reads any more.
static int is_end_seen(PyObject* value) {
  if (unseen.count(Py_TYPE(value))) return 0;
  PyObject* args[] = {value};
  Ref answer = ask(end_is_seen, args, 1);
  return answer ? PyObject_IsTrue(answer.get()) : -1;
}

static void add(Condition& condition, PyObject* value) {
  condition.values.push_back(value);
  condition.text += 'v';
}

// The values in the order in which code that resumes takes them: stack, locals, cells, the exception being handled.
static bool read_condition(PyObject* handed, Condition& condition) {
  PyObject *stop = PyStructSequence_GET_ITEM(handed, 0), *stack = PyStructSequence_GET_ITEM(handed, 1);
  PyObject *locals = PyStructSequence_GET_ITEM(handed, 2), *cells = PyStructSequence_GET_ITEM(handed, 3);
  // Safe: a stop is framelift's own record.
  Ref offsets = Ref::steal(PyObject_GetAttr(stop, name_offsets)), dead = Ref::steal(PyObject_GetAttr(stop, name_dead));
  Ref names = Ref::steal(PyObject_GetAttr(stop, name_names));
  Ref handled = Ref::steal(PyObject_GetAttr(stop, name_handled));
  if (!offsets || !dead || !names || !handled) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(stack); i++) {
    PyObject* value = PyTuple_GET_ITEM(stack, i);
    bool is_offset = false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(offsets.get()) && !is_offset; k++)
      is_offset = PyLong_AsSsize_t(PyTuple_GET_ITEM(offsets.get(), k)) == i;
    if (value == null_mark)
      condition.text += 'n';
    else if (is_offset && PyLong_CheckExact(value))
      condition.text += std::to_string(PyLong_AsSsize_t(value)) + ';';
    else
      add(condition, value);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(locals); i++) {
    PyObject* value = PyTuple_GET_ITEM(locals, i);
    int kept = value != null_mark;
    if (kept) {
      int is_dead = PySet_Contains(dead.get(), PyTuple_GET_ITEM(names.get(), i));
      if (is_dead) kept = is_dead < 0 ? -1 : is_end_seen(value);
      if (kept < 0) return false;
    }
    condition.kept.push_back(kept);
    if (kept)
      add(condition, value);
    else
      condition.text += '-';
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cells); i++) condition.values.push_back(PyTuple_GET_ITEM(cells, i));
  if (handled.get() == Py_True) condition.values.push_back(PyStructSequence_GET_ITEM(handed, 4));
  return true;
}

// (function, arguments) of a step: (code, order, number of cells, number of free variables, whether the last value is
// the exception being handled), see Step in breaks.py.
static Ref take_step(PyObject* step, PyObject* function, PyObject* const* values, Py_ssize_t count) {
  PyFunctionObject* from = (PyFunctionObject*)function;
  PyObject* order = PyTuple_GET_ITEM(step, 1);
  Py_ssize_t cells = PyLong_AsSsize_t(PyTuple_GET_ITEM(step, 2)), frees = PyLong_AsSsize_t(PyTuple_GET_ITEM(step, 3));
  Py_ssize_t first = count - (PyTuple_GET_ITEM(step, 4) == Py_True) - cells;
  Py_ssize_t outer = from->func_closure ? PyTuple_GET_SIZE(from->func_closure) - frees : 0;
  Ref arguments = make_tuple(PyTuple_GET_SIZE(order), [&](Py_ssize_t i) {
    Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(order, i));
    if (place >= 0) return Ref::new_ref(values[place]);
    Ref contents = Ref::steal(PyCell_Get(values[-1 - place]));
    if (!contents && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "cell is empty");
    return contents;
  });
  Ref closure = make_tuple(cells + frees, [&](Py_ssize_t i) {
    return Ref::new_ref(i < cells ? values[first + i] : PyTuple_GET_ITEM(from->func_closure, outer + i - cells));
  });
  Ref made = Ref::steal(PyFunction_New(PyTuple_GET_ITEM(step, 0), from->func_globals));
  if (made) Py_SETREF(((PyFunctionObject*)made.get())->func_builtins, Py_NewRef(from->func_builtins));
  if (!arguments || !closure || !made) return nullptr;
  Py_XSETREF(((PyFunctionObject*)made.get())->func_name, Py_NewRef(from->func_name));
  if (cells + frees && PyFunction_SetClosure(made.get(), closure.get()) < 0) return nullptr;
  return Ref::steal(PyTuple_Pack(2, made.get(), arguments.get()));
}

// The step remembered in `steps` for a condition.  It counts for one `Breaks` alone, which keeps what was made for it.
static Ref remembered_step(PyObject* steps, PyObject* breaks, const std::string& text) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(steps); i++) {
    PyObject* one = PyList_GET_ITEM(steps, i);
    PyObject* known = PyTuple_GET_ITEM(one, 1);
    if (PyWeakref_GET_OBJECT(PyTuple_GET_ITEM(one, 0)) == breaks && (size_t)PyBytes_GET_SIZE(known) == text.size() &&
        !memcmp(PyBytes_AS_STRING(known), text.data(), text.size()))
      return Ref::new_ref(PyTuple_GET_ITEM(one, 2));
  }
  return nullptr;
}

static bool remember_step(PyObject* steps, PyObject* breaks, const std::string& text, PyObject* step) {
  for (Py_ssize_t i = PyList_GET_SIZE(steps); i-- > 0;)  // those of callables that are gone
    if (PyWeakref_GET_OBJECT(PyTuple_GET_ITEM(PyList_GET_ITEM(steps, i), 0)) == Py_None &&
        PyList_SetSlice(steps, i, i + 1, nullptr) < 0)
      return false;
  Ref owner = Ref::steal(PyWeakref_NewRef(breaks, nullptr));
  Ref known = Ref::steal(PyBytes_FromStringAndSize(text.data(), (Py_ssize_t)text.size()));
  Ref one = Ref::steal(owner && known ? PyTuple_Pack(3, owner.get(), known.get(), step) : nullptr);
  return one && PyList_Append(steps, one.get()) == 0;
}

// What goes on with a frame that was handed over at `place`, as (function, arguments).  `asked`: framelift's own Python
// code, which is asked once for a place and a condition.
static Ref next_step(PyObject* asked, PyObject* compiled, PyObject* function, PyObject* place, PyObject* handed,
                     const Condition& condition) {
  // Safe: all of them are framelift's own objects.
  Ref miss = Ref::steal(PyObject_GetAttr(compiled, name_miss));
  Ref breaks = Ref::steal(miss ? PyObject_GetAttr(miss.get(), name_breaks) : nullptr);
  Ref steps = Ref::steal(breaks ? PyObject_GetAttr(place, name_steps) : nullptr);
  if (!steps) return nullptr;
  Ref step = remembered_step(steps.get(), breaks.get(), condition.text);
  if (!step) {
    Ref kept = make_tuple((Py_ssize_t)condition.kept.size(),
                          [&](Py_ssize_t i) { return Ref::steal(PyBool_FromLong(condition.kept[(size_t)i])); });
    if (!kept) return nullptr;
    PyObject* args[] = {compiled, function, handed, kept.get()};
    step = ask(asked, args, 4);
    if (!step || !remember_step(steps.get(), breaks.get(), condition.text, step.get())) return nullptr;
  }
  return take_step(step.get(), function, condition.values.data(), (Py_ssize_t)condition.values.size());
}

static Ref next_plain(PyObject* compiled, PyObject* function, PyObject* handover) {
  PyObject* values = PyStructSequence_GET_ITEM(handover, 1);
  Condition condition;
  condition.values.assign(&PyTuple_GET_ITEM(values, 0), &PyTuple_GET_ITEM(values, 0) + PyTuple_GET_SIZE(values));
  return next_step(plain_step, compiled, function, PyStructSequence_GET_ITEM(handover, 0), handover, condition);
}

static Ref next_resumed(PyObject* compiled, PyObject* function, PyObject* handed) {
  Condition condition;
  if (!read_condition(handed, condition)) return nullptr;
  return next_step(resume_step, compiled, function, PyStructSequence_GET_ITEM(handed, 0), handed, condition);
}

PyObject* drive(PyObject* compiled, PyObject* function, PyObject* handover) {
  HandledScope handled;
  Ref kept_compiled = Ref::new_ref(compiled), kept_function = Ref::new_ref(function), result = Ref::steal(handover);
  while (result) {
    Ref next = next_plain(compiled, function, result.get());
    result.reset();
    if (!next) break;
    {
      PyObject *code = PyTuple_GET_ITEM(next.get(), 0), *arguments = PyTuple_GET_ITEM(next.get(), 1);
      Given given(code, arguments);
      size_t count = (size_t)PyTuple_GET_SIZE(arguments);
      result = Ref::steal(run_plain(compiled, code, &PyTuple_GET_ITEM(arguments, 0), count, nullptr));
    }
    next.reset();
    handled.put_back();  // a frame handed over inside an `except` block leaves its exception there; guards are about
                         // the caller's
    if (!result || Py_TYPE(result.get()) != Handed_Type) break;
    next = next_resumed(compiled, function, result.get());
    result.reset();
    if (!next) break;
    {
      PyObject *code = PyTuple_GET_ITEM(next.get(), 0), *arguments = PyTuple_GET_ITEM(next.get(), 1);
      Given given(code, arguments);
      Py_ssize_t count = PyTuple_GET_SIZE(arguments);
      bool began;
      result = Ref::steal(run_looked_up(compiled, code, &PyTuple_GET_ITEM(arguments, 0), count, &began));
      if (!result && !began) result = throw_into(compiled, code, arguments);
    }
    next.reset();
    if (!is_handover(result.get())) break;
  }
  return result.release();
}

// let_go(values): the tuple a capture was given, when it is over.  Exceptions that captured code raised and caught may
// keep the frames they passed, and those keep the driver's, until the collector comes; the program's values are not
// theirs to keep.
static PyObject* let_go(PyObject*, PyObject* values) {
  if (!PyTuple_CheckExact(values)) return PyErr_Format(PyExc_TypeError, "let_go takes a tuple");
  for (Py_ssize_t i = 0, n = PyTuple_GET_SIZE(values); i < n; i++) {
    PyObject* value = PyTuple_GET_ITEM(values, i);
    PyTuple_SET_ITEM(values, i, Py_NewRef(Py_None));
    Py_DECREF(value);
  }
  Py_RETURN_NONE;
}

// handover(place, values): what an entry that ends at a break returns.
static PyObject* handover(PyObject*, PyObject* args) {
  PyObject *place, *values;
  if (!PyArg_ParseTuple(args, "OO!", &place, &PyTuple_Type, &values)) return nullptr;
  PyObject* made = PyStructSequence_New(Handover_Type);
  if (!made) return nullptr;
  PyStructSequence_SET_ITEM(made, 0, Py_NewRef(place));
  PyStructSequence_SET_ITEM(made, 1, Py_NewRef(values));
  return made;
}

static Connections connections({{"plain_step", &plain_step},
                                {"resume_step", &resume_step},
                                {"throw_step", &throw_step},
                                {"end_is_seen", &end_is_seen},
                                {"types_without_end", nullptr, take_classes<unseen>}});

static MethodTable methods({
    method<hand_over, METH_O>("hand_over", "hand_over(stop): the calling frame as a record"),
    method<stop, METH_O>("stop", "stop(stop): end the rehearsal here if it is the place"),
    method<let_go, METH_O>("let_go", "let_go(values): empty the tuple of what a capture was given"),
    method<handle_from_here, METH_O>("handle_from_here", "(exception): inside an except block that is gone on with"),
    method<tag_offsets, METH_O>("tag_offsets", "tag_offsets(slots): numbers of the caller's stack that are offsets"),
    method<handover, METH_VARARGS>("handover", "handover(place, values): what an entry that ends at a break returns"),
});

static PyStructSequence_Field fields[] = {{"stop", nullptr},  {"stack", nullptr},   {"locals", nullptr},
                                          {"cells", nullptr}, {"handled", nullptr}, {nullptr, nullptr}};
static PyStructSequence_Desc description = {"framelift._core.Handed", "A frame, handed over.", fields, 5};
static PyStructSequence_Field handover_fields[] = {{"place", nullptr}, {"values", nullptr}, {nullptr, nullptr}};
static PyStructSequence_Desc handover_description = {"framelift._core.Handover", "A frame to be gone on with.",
                                                     handover_fields, 2};

bool init_resume(PyObject* module) {
  stop_type = PyErr_NewException("framelift._core.Stop", PyExc_BaseException, nullptr);
  null_mark = PyObject_CallNoArgs((PyObject*)&PyBaseObject_Type);
  Handed_Type = PyStructSequence_NewType(&description);
  Handover_Type = PyStructSequence_NewType(&handover_description);
  // Safe: the native module itself, when it is loaded.
  Ref probes = Ref::steal(PyObject_GetAttrString(module, "PROBES"));
  call_probe = probes ? Py_XNewRef(PyDict_GetItemString(probes.get(), "call")) : nullptr;
  return stop_type && null_mark && Handed_Type && Handover_Type && call_probe && add_functions(module, methods) &&
         PyModule_AddObjectRef(module, "NULL", null_mark) == 0 && PyModule_AddObjectRef(module, "Stop", stop_type) == 0;
}

}  // namespace framelift
