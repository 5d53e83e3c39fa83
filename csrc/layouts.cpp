// See layouts.h.  Each check makes an object and compares what the core reads with what a public function answers.
#include "layouts.h"

#include <cstdlib>
#include <vector>

#include "frame_access.h"
#include "frames.h"
#include "inline_values.h"
#include "main_thread.h"
#include "own_attributes.h"
#include "reference.h"

extern "C" PyAPI_FUNC(int) _PyOS_IsMainThread(void);

namespace framelift {

static Ref made_class() { return Ref::steal(PyObject_CallFunction((PyObject*)&PyType_Type, "s(){}", "probe")); }

// An instance with the attributes `one` and `two`.
static Ref made_instance() {
  Ref cls = made_class(), object = Ref::steal(cls ? PyObject_CallNoArgs(cls.get()) : nullptr);
  bool set = object && PyObject_SetAttrString(object.get(), "one", Py_True) == 0 &&
             PyObject_SetAttrString(object.get(), "two", Py_False) == 0;
  return set ? std::move(object) : Ref();
}

static bool keys_of_dictionaries() {
  Ref dict = Ref::steal(Py_BuildValue("{s:i}", "one", 1));
  if (!dict || !dict_has_only_strings(dict.get())) return false;
  return PyDict_SetItem(dict.get(), Py_None, Py_None) == 0 && !dict_has_only_strings(dict.get());
}

static bool versions_of_dictionaries() {
  Ref dict = Ref::steal(PyDict_New());
  if (!dict) return false;
  uint64_t before = dict_version(dict.get()), same = dict_version(dict.get());
  return before == same && PyDict_SetItemString(dict.get(), "one", Py_None) == 0 &&
         (!before || dict_version(dict.get()) != before);
}

static bool order_of_ordered_dictionaries() {
  Ref dict = Ref::steal(PyObject_CallNoArgs((PyObject*)&PyODict_Type));
  if (!dict || PyODict_SetItem(dict.get(), Py_True, Py_None) < 0 || PyODict_SetItem(dict.get(), Py_False, Py_None) < 0)
    return false;
  uint64_t before = *order_number_at(dict.get());
  Ref moved = Ref::steal(PyObject_CallMethod(dict.get(), "move_to_end", "O", Py_True));
  return moved && *order_number_at(dict.get()) != before && *order_number_at(dict.get()) - before < 8;
}

static bool versions_of_classes() {
  Ref cls = made_class(), name = Ref::steal(PyUnicode_InternFromString("__init__"));
  if (!cls || !name) return false;
  unsigned before = ensure_type_version((PyTypeObject*)cls.get(), name.get());
  bool set = before && PyObject_SetAttrString(cls.get(), "one", Py_None) == 0;
  return set && ensure_type_version((PyTypeObject*)cls.get(), name.get()) != before;
}

static bool dictionaries_of_instances() {
  Ref object = made_instance(), dict = Ref::steal(object ? PyObject_GenericGetDict(object.get(), nullptr) : nullptr);
#if PY_VERSION_HEX >= 0x030d0000
  if (!dict || !shares_values(dict.get())) return false;
#endif
  PyObject** slot = dict ? instance_dict_at(object.get()) : nullptr;
  return slot && *slot == dict.get() && slot == (PyObject**)object.get() - 3 &&
         attributes_at(object.get()) == dict.get() && !surely_without_attributes(object.get());
}

static bool attributes_without_dictionary() {
  Ref object = made_instance();
  if (!object) return false;
  PyObject** values = inline_values(object.get());
#if PY_VERSION_HEX < 0x030d0000
  const uint8_t* first = (uint8_t*)values - 4;  // of two: the last one set lies first
  return values && InlinePlaces::count_of(values) == 2 && first[1] < InlinePlaces::kMost &&
         first[0] < InlinePlaces::kMost && values[first[1]] == Py_True && values[first[0]] == Py_False;
#else
  return !values;
#endif
}

static bool bound_slots() {
  Ref one = Ref::steal(PyLong_FromLong(1)), wrapper = Ref::steal(PyObject_GetAttrString(one.get(), "__add__"));
  return wrapper && Py_IS_TYPE(wrapper.get(), method_wrapper_type()) &&
         ((MethodWrapper*)wrapper.get())->receiver == one.get();
}

static bool super_objects() {
  Ref made = Ref::steal(PyObject_CallFunction((PyObject*)&PySuper_Type, "OO", &PyBool_Type, Py_True));
  const SuperObject* super = (SuperObject*)made.get();
  return super && super->cls == &PyBool_Type && super->receiver == Py_True && super->start == &PyBool_Type;
}

// The frame that imports the core.
static bool frames() {
  PyFrameObject* frame = PyEval_GetFrame();
  Frame* current = current_frame(PyThreadState_Get());
  if (!frame || !current) return false;
  Ref code = Ref::steal((PyObject*)PyFrame_GetCode(frame));
  PyObject *found = (PyObject*)frame_code(current), *function = (PyObject*)frame_function(current);
  return found == code.get() && PyFunction_Check(function) && PyFunction_GET_CODE(function) == found &&
         frame_unit(current) * (int)sizeof(_Py_CODEUNIT) == PyFrame_GetLasti(frame) && !is_incomplete(current);
}

static bool main_thread() {
  return (PyThread_get_thread_ident() == main_thread_ident()) == (_PyOS_IsMainThread() != 0);
}

static bool counts_of_the_collector() {
  CollectorPause pause;
  Ref gc = Ref::steal(PyImport_ImportModule("gc"));
  Ref counts = Ref::steal(gc ? PyObject_CallMethod(gc.get(), "get_count", nullptr) : nullptr);
  long found = counts ? PyLong_AsLong(PyTuple_GET_ITEM(counts.get(), 0)) : -1;
  return found >= 0 && std::abs(found - young_objects()) < 8;  // a few were made since
}

static std::vector<const LayoutCheck*>& layouts() {
  static std::vector<const LayoutCheck*> all;
  return all;
}

LayoutCheck::LayoutCheck(const char* what, const char* file, bool (*holds)()) : what(what), file(file), holds(holds) {
  layouts().push_back(this);
}

static const LayoutCheck kLayouts[] = {
    {"keys of dictionaries", "frames.h", keys_of_dictionaries},
    {"versions of dictionaries", "frames.h", versions_of_dictionaries},
    {"the order of an OrderedDict", "frames.h", order_of_ordered_dictionaries},
    {"versions of classes", "frames.h", versions_of_classes},
    {"dictionaries of instances", "own_attributes.h", dictionaries_of_instances},
    {"attributes without a dictionary", "inline_values.h", attributes_without_dictionary},
    {"bound special methods", "frames.h", bound_slots},
    {"super objects", "frames.h", super_objects},
    {"frames", "frame_access.h", frames},
    {"the main thread", "main_thread.h", main_thread},
    {"counts of the collector", "main_thread.h", counts_of_the_collector},
};

bool init_layouts(PyObject* module) {
  const std::vector<const LayoutCheck*>& all = layouts();
  Ref rows = Ref::steal(PyTuple_New((Py_ssize_t)all.size()));
  for (size_t i = 0; rows && i < all.size(); i++) {
    const LayoutCheck& layout = *all[i];
    bool holds = layout.holds();
    PyErr_Clear();
    PyObject* row = Py_BuildValue("(ssO)", layout.what, layout.file, holds ? Py_True : Py_False);
    if (!row) return false;
    PyTuple_SET_ITEM(rows.get(), (Py_ssize_t)i, row);
  }
  return rows && PyModule_AddObjectRef(module, "LAYOUTS", rows.get()) == 0;
}

}  // namespace framelift
