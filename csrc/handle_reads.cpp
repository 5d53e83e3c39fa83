// Reads of attributes of handles, for the usual case: the class finds attributes as `object` does, nothing of this name
// was written, and the name is found in the object's own dictionary, as a function of the class, or where nn.Module
// keeps parameters, buffers and submodules.  What is met first, or is less usual, is the session's: everything here has
// its Python meaning in boundary/attributes/instances.py.
#include "handle_reads.h"

#include <cmath>

#include "barrier.h"
#include "connections.h"
#include "frames.h"
#include "guard_log.h"
#include "outside.h"
#include "paths.h"
#include "probes.h"

namespace framelift {

static PyObject *const kind_absent = interned("ABSENT"), *const kind_eq = interned("EQ");
static PyObject *const kind_is = interned("IS"), *const kind_keys = interned("KEYS");
static PyObject *const kind_no_lookup = interned("NO_LOOKUP"), *const kind_same = interned("SAME");
static PyObject *const kind_type = interned("TYPE"), *const step_dict = interned("dict");
static PyObject *const step_item = interned("item"), *const step_lookup = interned("lookup");
static PyObject *const name_class = interned("__class__"), *const name_dict = interned("__dict__");
static PyObject* const name_getattr = interned("__getattr__");
static PyObject *const name_getattribute = interned("__getattribute__"), *const name_origin = interned("origin");
static PyObject* const name_seen = interned("seen");
static PyObject* no_keys;
static PyObject* const names_of_tables[] = {interned("_parameters"), interned("_buffers"),
                                            interned("_modules")};  // in the order of Module.__getattr__

// What framelift's Python code has for them; set once, and kept as long as the process lives.
static PyObject *absent, *origin_type, *let_in, *read_instance, *module_getattr, *local_type, *view_type;

static Ref id_of(PyObject* object) { return Ref::steal(PyLong_FromVoidPtr(object)); }

// One question: the object, its class and its record, found once for all that is asked of them.
class Read {
 public:
  Read(Rehearsal* r, PyObject* obj, PyObject* name)
      : r_(r), t_(*r->world), obj_(obj), name_(name), cls_(Py_TYPE(obj)) {}

  // Whether the object and the name are of the usual kind; false also with an exception set.  `past`: a class of the
  // program's that answers reads itself is not asked.
  bool is_usual(bool past = false) {
    if (PyModule_Check(obj_) || PyType_IsSubtype(cls_, (PyTypeObject*)local_type)) return false;
    if (PySet_Contains(t_.written.get(), name_) != 0 || !(class_id_ = id_of((PyObject*)cls_))) return false;
    PyObject* reader = PyDict_GetItemWithError(t_.readers.get(), class_id_.get());
    if (reader != read_instance) return false;
    past_ = past;
    knows_ = PySet_Contains(t_.generic.get(), class_id_.get()) == 1;
    if (!knows_ && !(past && asks_its_own())) return false;
    Ref id = id_of(obj_);
    PyObject* record = id ? PyDict_GetItemWithError(t_.by_seen.get(), id.get()) : nullptr;
    if (!record) return false;
    own_ = Ref::steal(PyObject_GenericGetDict(obj_, nullptr));
    if (!own_) {
      if (PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
      return false;
    }
    if (!is_table(own_.get())) return false;
    Ref origin = Ref::steal(PyObject_GetAttr(record, name_origin));  // safe: a record of framelift's own
    dict_ = origin ? path_to(origin.get(), step_dict, Py_None) : Ref();
    return (bool)dict_;
  }

  Ref attribute() {
    PyObject* found = lookup(name_);
    if (!found) return nullptr;
    if (name_ == name_dict && Py_IS_TYPE(found, &PyGetSetDescr_Type)) return view_of_own();
    if (!(found == absent || is_plain(found))) return nullptr;
    PyObject* entry = PyDict_GetItemWithError(own_.get(), name_);
    if (entry) return admit(entry, path_to(dict_.get(), step_item, name_));
    if (PyErr_Occurred() || !guard(dict_, kind_absent, name_, name_)) return nullptr;
    if (found == absent && past_) return nullptr;
    if (found == absent) return lookup(name_getattr) == module_getattr ? of_module() : nullptr;
    if (!PyFunction_Check(found)) {
      Ref cls = path_from(origin_type, (PyObject*)cls_);
      return cls ? admit(found, path_to(cls.get(), step_lookup, name_)) : Ref();
    }
    if (knows_) put_known(r_, r_->attributes, obj_, name_, Answer::Method, found);
    return Ref::steal(PyMethod_New(found, obj_));
  }

  Tested table() {
    Ref table = Ref::new_ref(PyDict_GetItemWithError(own_.get(), name_)), id = id_of(table.get());
    if (PyErr_Occurred()) return Tested::Unknown;
    if (!table || !PyODict_CheckExact(table.get()) || PyDict_GET_SIZE(table.get())) return Tested::NoTable;
    if (PyDict_GetItemWithError(t_.memo.get(), id.get())) return Tested::NoTable;
    Ref place = Ref::steal(PyTuple_Pack(2, class_id_.get(), name_));
    if (!place || PySet_Contains(t_.read_first.get(), place.get()) != 1) return Tested::Unknown;
    Ref origin = path_to(dict_.get(), step_item, name_);
    PyObject* known = origin ? PyDict_GetItemWithError(t_.tested.get(), id.get()) : nullptr;
    if (PyErr_Occurred()) return Tested::Unknown;
    if (known) return same(origin, PyTuple_GET_ITEM(known, 1)) ? Tested::Empty : Tested::Unknown;
    Ref row = Ref::steal(PyTuple_Pack(2, table.get(), origin.get()));
    bool done = row && PyDict_SetItem(t_.tested.get(), id.get(), row.get()) == 0 &&
                guard(origin, kind_type, (PyObject*)&PyODict_Type) && guard(origin, kind_keys, no_keys) &&
                PyList_Append(t_.distinct.get(), origin.get()) == 0;
    return done ? Tested::Empty : Tested::Unknown;
  }

 private:
  // Whether the class was found to have a `__getattribute__` of the program's, as a fact.
  bool asks_its_own() {
    Ref key = Ref::steal(PyTuple_Pack(2, class_id_.get(), name_getattribute));
    PyObject* known = key ? PyDict_GetItemWithError(t_.looked_up.get(), key.get()) : nullptr;
    return known && PyFunction_Check(known);
  }

  // Looking into it runs no code of the program.
  static bool is_table(PyObject* dict) { return PyDict_CheckExact(dict) && dict_has_only_strings(dict); }

  // What a class may hold beside an object's own entry, which comes first.
  static bool is_plain(PyObject* found) {
    return PyFunction_Check(found) || found == Py_None || PyBool_Check(found) || PyLong_CheckExact(found) ||
           PyFloat_CheckExact(found) || PyUnicode_CheckExact(found) || PyTuple_CheckExact(found) ||
           PyDict_CheckExact(found) || PyList_CheckExact(found);
  }

  bool guard(const Ref& origin, PyObject* kind, PyObject* value, PyObject* tag = nullptr) {
    return origin && add_guard(t_.guard.get(), origin.get(), kind, value, tag);
  }

  // Guards that two paths lead to one object.
  bool same(const Ref& origin, PyObject* other) {
    int equal = PyObject_RichCompareBool(origin.get(), other, Py_EQ);
    return equal == 1 || (equal == 0 && guard(origin, kind_same, other));
  }

  // InstanceDict.of, once the view is there.
  Ref view_of_own() {
    Ref id = id_of(own_.get());
    PyObject* record = id ? PyDict_GetItemWithError(t_.memo.get(), id.get()) : nullptr;
    Ref seen = Ref::steal(record ? PyObject_GetAttr(record, name_seen) : nullptr);  // safe: a record of framelift's own
    return seen && PyObject_TypeCheck(seen.get(), (PyTypeObject*)view_type) ? std::move(seen) : Ref();
  }

  // World.lookup, of functions and of what is not there; borrowed.  NULL without an exception: the session's.
  PyObject* lookup(PyObject* name) {
    Ref key = Ref::steal(PyTuple_Pack(2, class_id_.get(), name));
    PyObject* known = key ? PyDict_GetItemWithError(t_.looked_up.get(), key.get()) : nullptr;
    if (known || PyErr_Occurred()) return known;
    if (!is_heap_type(cls_)) return nullptr;
    if (PySet_Contains(t_.written.get(), name) != 0) return nullptr;
    Ref found = Ref::new_ref(_PyType_Lookup(cls_, name)), cls = path_from(origin_type, (PyObject*)cls_);
    if (!cls || (found && !PyFunction_Check(found.get()))) return nullptr;
    bool guarded = found ? guard(path_to(cls.get(), step_lookup, name), kind_is, found.get())
                         : guard(cls, kind_no_lookup, name, name);
    PyObject* answer = found ? found.get() : absent;
    bool kept = guarded && PyDict_SetItem(t_.looked_up.get(), key.get(), answer) == 0 &&
                PyList_Append(t_.keep.get(), (PyObject*)cls_) == 0;
    return kept ? answer : nullptr;
  }

  // gateway.py: let_in
  Ref let_in_value(PyObject* value, const Ref& origin) {
    Ref id = id_of(value);
    PyObject* record = id ? PyDict_GetItemWithError(t_.memo.get(), id.get()) : nullptr;
    if (PyErr_Occurred()) return nullptr;
    if (record) {  // safe: a record of framelift's own
      Ref place = Ref::steal(PyObject_GetAttr(record, name_origin));
      Ref seen = Ref::steal(place ? PyObject_GetAttr(record, name_seen) : nullptr);
      return seen && same(origin, place.get()) ? std::move(seen) : Ref();
    }
    bool is_number = PyLong_CheckExact(value) || (PyFloat_CheckExact(value) && !std::isnan(PyFloat_AS_DOUBLE(value)));
    if (value == Py_None || PyBool_Check(value) || PyUnicode_CheckExact(value) || (is_number && t_.quiet))
      return guard(origin, kind_eq, value) ? Ref::new_ref(value) : Ref();
    PyObject* args[] = {t_.world.get(), value, origin.get()};
    return Ref::steal(PyObject_Vectorcall(let_in, args, 3, nullptr));
  }

  Ref admit(PyObject* entry, const Ref& origin) {
    Ref value = Ref::new_ref(entry), seen = origin ? let_in_value(value.get(), origin) : Ref();
    if (seen && knows_) put_known(r_, r_->attributes, obj_, name_, Answer::Value, seen.get());
    return seen;
  }

  // instances.py: _module_entry
  Ref of_module() {
    Ref tables[3];
    int last = -1;
    for (int i = 0; i < 3 && last < 0; i++) {
      if (PySet_Contains(t_.written.get(), names_of_tables[i]) != 0) return nullptr;
      tables[i] = Ref::new_ref(PyDict_GetItemWithError(own_.get(), names_of_tables[i]));
      if (!tables[i] || !is_table(tables[i].get())) return nullptr;
      Ref id = id_of(tables[i].get());
      if (!id || PyDict_GetItemWithError(t_.memo.get(), id.get()) || PyErr_Occurred()) return nullptr;
      int has = PyDict_Contains(tables[i].get(), name_);
      if (has < 0) return nullptr;
      if (has) last = i;
    }
    for (int i = 0; i <= last; i++) {
      Ref place = path_to(dict_.get(), step_item, names_of_tables[i]);
      if (!guard(place, kind_type, (PyObject*)&PyDict_Type)) return nullptr;
      if (i < last && !guard(place, kind_absent, name_, name_)) return nullptr;
      PyObject* value = i == last ? PyDict_GetItemWithError(tables[i].get(), name_) : nullptr;
      if (value) {
        Ref seen = admit(value, path_to(place.get(), step_item, name_));
        return seen && note_read_through(tables[i].get()) ? std::move(seen) : Ref();
      }
    }
    return nullptr;
  }

  // World.read_through
  bool note_read_through(PyObject* table) {
    Ref id = id_of(table), empty = Ref::steal(PyList_New(0)), row = Ref::steal(PyTuple_Pack(2, obj_, name_));
    PyObject* rows = id && empty && row ? PyDict_SetDefault(t_.read_through.get(), id.get(), empty.get()) : nullptr;
    return rows && PyList_Append(rows, row.get()) == 0;
  }

  Rehearsal* r_;
  const WorldTables& t_;
  PyObject *obj_, *name_;
  PyTypeObject* cls_;
  bool past_ = false, knows_ = false;  // knows_: what is found is told to the probes
  Ref class_id_, own_, dict_;          // dict_: the path to the object's dictionary
};

static PyObject* read(Rehearsal* r, PyObject* obj, PyObject* name, bool past) {
  if (!r->world) return nullptr;
  Ref result;
  {
    PausedScope paused;
    Read read(r, obj, name);
    if (read.is_usual(past)) result = read.attribute();
  }
  if (result || PyErr_Occurred()) left_own_code(r, result);
  return result.release();
}

PyObject* read_handle(Rehearsal* r, PyObject* obj, PyObject* name) { return read(r, obj, name, false); }

PyObject* read_generic(Rehearsal* r, PyObject* obj, PyObject* name) { return read(r, obj, name, true); }

PyObject* read_inherited(Rehearsal* r, PyObject* super, PyObject* name) {
  const SuperObject* self = (SuperObject*)super;
  if (!r->world || !self->start || self->receiver == (PyObject*)self->start || name == name_class) return nullptr;
  Ref start = id_of((PyObject*)self->start), cls = id_of((PyObject*)self->cls);
  Ref place = Ref::steal(start && cls ? PyTuple_Pack(3, start.get(), cls.get(), name) : nullptr);
  PyObject* found = place ? PyDict_GetItemWithError(r->world->inherited.get(), place.get()) : nullptr;
  return found ? Py_TYPE(found)->tp_descr_get(found, self->receiver, (PyObject*)self->start) : nullptr;
}

Tested test_table(Rehearsal* r, PyObject* obj, PyObject* name) {
  if (!r->world) return Tested::Unknown;
  Tested tested = Tested::Unknown;
  {
    PausedScope paused;
    Read read(r, obj, name);
    if (read.is_usual()) tested = read.table();
  }
  Ref done = Ref::new_ref(PyErr_Occurred() ? nullptr : Py_None);
  left_own_code(r, done);
  return done ? tested : Tested::Failed;
}

// follow_world(world, readers, tables, quiet): what reads of handles look into, in the order of WorldTables.
static PyObject* follow_world(PyObject*, PyObject* const* a, Py_ssize_t n) {
  Rehearsal* r = current_rehearsal();
  constexpr int kCount = 12;
  if (!r || n != 4 || !PyDict_Check(a[1]) || !PyTuple_Check(a[2]) || PyTuple_GET_SIZE(a[2]) != kCount ||
      !is_guard_log(PyTuple_GET_ITEM(a[2], 0)))
    return PyErr_Format(PyExc_TypeError, "follow_world(world, readers, tables, quiet)");
  auto t = std::make_unique<WorldTables>();
  t->world = Ref::new_ref(a[0]);
  t->readers = Ref::new_ref(a[1]);
  t->quiet = a[3] == Py_True;
  Ref* fields[kCount] = {&t->guard,      &t->memo,   &t->by_seen,  &t->written,      &t->looked_up, &t->generic,
                         &t->read_first, &t->tested, &t->distinct, &t->read_through, &t->keep,    &t->inherited};
  for (int i = 0; i < kCount; i++) *fields[i] = Ref::new_ref(PyTuple_GET_ITEM(a[2], i));
  r->world = std::move(t);
  Py_RETURN_NONE;
}

static Connections connections({{"absent", &absent},
                                {"origin_type", &origin_type},
                                {"let_in", &let_in},
                                {"read_instance", &read_instance},
                                {"module_getattr", &module_getattr},
                                {"thread_local", &local_type},
                                {"instance_dict", &view_type}});

static MethodTable methods({
    method<follow_world>("follow_world", "follow_world(world, readers, tables, quiet): reads of handles look there"),
});

bool init_handle_reads(PyObject* module) {
  return (no_keys = PyTuple_New(0)) && add_functions(module, methods);
}

}  // namespace framelift
