// Facts about classes and frames that Python code cannot see by itself.  Nothing here belongs to a rehearsal.
#include "barrier.h"
#include "calls.h"
#include "frame_access.h"
#include "frames.h"
#include "reference.h"

namespace framelift {

// A class made by a class statement: its instances are freed by the one function CPython uses for those.
static PyObject* is_python_class(PyObject*, PyObject* cls) {
  static destructor python_dealloc = nullptr;
  if (!python_dealloc) {
    Ref probe = Ref::steal(PyObject_CallFunction((PyObject*)&PyType_Type, "s(){}", "probe"));
    if (!probe) return nullptr;
    python_dealloc = ((PyTypeObject*)probe.get())->tp_dealloc;
  }
  return PyBool_FromLong(PyType_Check(cls) && ((PyTypeObject*)cls)->tp_dealloc == python_dealloc);
}
// Whether the type is one of these classes or derived from one.  -1 with an exception set.
static int derives(PyTypeObject* type, PyObject* classes) {
  if (PyTuple_Check(classes)) {
    int found = 0;
    for (Py_ssize_t i = 0; found == 0 && i < PyTuple_GET_SIZE(classes); i++)
      found = derives(type, PyTuple_GET_ITEM(classes, i));
    return found;
  }
  if (PyType_Check(classes)) {
    if (PyType_IsSubtype(type, (PyTypeObject*)classes)) return 1;
    if (Py_IS_TYPE(classes, &PyType_Type) || !is_heap_type(Py_TYPE(classes))) return 0;
  }
  return PyObject_IsSubclass((PyObject*)type, classes);  // abstract classes and unions
}
// is_a(value, class or tuple of classes): isinstance() by the type alone.  isinstance() also asks the value for its
// `__class__`, which may be code of the program.
static PyObject* is_a(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 2) return PyErr_Format(PyExc_TypeError, "is_a(value, classes)");
  int found = derives(Py_TYPE(a[0]), a[1]);
  return found < 0 ? nullptr : PyBool_FromLong(found);
}
// id(object): as the builtin, which also tells the audit hooks of the program (sys.addaudithook).  A capture asks for
// tens of thousands, and libraries (filelock, which transformers imports) have such hooks.
static PyObject* id(PyObject*, PyObject* value) { return PyLong_FromVoidPtr(value); }
// code_of(function), defaults_of(function): what reads of the attributes give, which audit hooks hear of as well.
static bool is_function(PyObject* value) {
  if (PyFunction_Check(value)) return true;
  PyErr_SetString(PyExc_TypeError, "a Python function is needed");
  return false;
}
static PyObject* code_of(PyObject*, PyObject* function) {
  return is_function(function) ? Py_NewRef(PyFunction_GET_CODE(function)) : nullptr;
}
static PyObject* defaults_of(PyObject*, PyObject* function) {
  if (!is_function(function)) return nullptr;
  PyObject *positional = PyFunction_GET_DEFAULTS(function), *keywords = PyFunction_GET_KW_DEFAULTS(function);
  Ref given = Ref::steal(positional ? Py_NewRef(positional) : PyTuple_New(0));
  Ref named = Ref::steal(keywords ? Py_NewRef(keywords) : PyDict_New());
  return given && named ? PyTuple_Pack(2, given.get(), named.get()) : nullptr;
}
// What a metaclass has by a name is not type's own, but code of the program.
static bool overrides(PyTypeObject* meta, PyObject* name) {
  PyObject* found = _PyType_Lookup(meta, name);
  return found && !Py_IS_TYPE(found, &PyWrapperDescr_Type) && found != _PyType_Lookup(&PyType_Type, name);
}
// is_plain_class(class): comparing and hashing the class runs no code of the program.
static PyObject* is_plain_class(PyObject*, PyObject* cls) {
  static PyObject* names[] = {PyUnicode_InternFromString("__eq__"), PyUnicode_InternFromString("__hash__")};
  if (!PyType_Check(cls)) return PyErr_Format(PyExc_TypeError, "is_plain_class(class)");
  PyTypeObject* meta = Py_TYPE(cls);
  if (meta == &PyType_Type || !is_heap_type(meta)) Py_RETURN_TRUE;
  for (PyObject* name : names)
    if (overrides(meta, name)) Py_RETURN_FALSE;
  Py_RETURN_TRUE;
}
// has_generic_reads(class): its instances find attributes as `object` does, so that `__class__` is their type.
static PyObject* has_generic_reads(PyObject*, PyObject* cls) {
  if (!PyType_Check(cls)) return PyErr_Format(PyExc_TypeError, "has_generic_reads(class)");
  return PyBool_FromLong(((PyTypeObject*)cls)->tp_getattro == PyObject_GenericGetAttr);
}
// type_name(class): as errors of C code call it.  Those made by C code have their module in it.
static PyObject* type_name(PyObject*, PyObject* cls) {
  if (!PyType_Check(cls)) return PyErr_Format(PyExc_TypeError, "type_name(class)");
  return PyUnicode_FromString(((PyTypeObject*)cls)->tp_name);
}
// type_lookup(class, name, default): the member of the class or a base that has this name, as it lies there.
static PyObject* type_lookup(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 3 || !PyType_Check(a[0]) || !PyUnicode_Check(a[1]))
    return PyErr_Format(PyExc_TypeError, "type_lookup(class, name, default)");
  PyObject* found = _PyType_Lookup((PyTypeObject*)a[0], a[1]);
  return Py_NewRef(found ? found : a[2]);
}
// own_dict(object): the dictionary of its attributes, whatever its class makes of reads; None where it has none.
static PyObject* own_dict(PyObject*, PyObject* object) {
  if (PyType_Check(object)) return PyErr_Format(PyExc_TypeError, "own_dict takes no class");
  PyObject* dict = PyObject_GenericGetDict(object, nullptr);
  if (dict || !PyErr_ExceptionMatches(PyExc_AttributeError)) return dict;
  PyErr_Clear();
  Py_RETURN_NONE;
}
// frame_holds(frame, object): whether a variable of the frame, or a cell among them, holds the object.
static PyObject* frame_holds(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 2 || !PyFrame_Check(a[0])) return PyErr_Format(PyExc_TypeError, "frame_holds(frame, object)");
  Frame* frame = ((PyFrameObject*)a[0])->f_frame;
  PyCodeObject* code = frame_code(frame);
  for (int i = 0; i < code->co_nlocalsplus; i++) {
    PyObject* found = frame_value(frame, i);
    if (found && (found == a[1] || (PyCell_Check(found) && PyCell_GET(found) == a[1]))) Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}
// frame_cell(frame, name): the cell behind a variable of a frame that its function's closure holds, None when there is
// none.
static PyObject* frame_cell(PyObject*, PyObject* const* a, Py_ssize_t n) {
  if (n != 2 || !PyFrame_Check(a[0])) return PyErr_Format(PyExc_TypeError, "frame_cell(frame, name)");
  Frame* frame = ((PyFrameObject*)a[0])->f_frame;
  PyCodeObject* code = frame_code(frame);
  for (int i = 0; i < code->co_nlocalsplus; i++) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(code->co_localsplusnames, i), a[1]) != 0) continue;
    PyObject* found = frame_value(frame, i);
    return Py_NewRef(found && PyCell_Check(found) ? found : Py_None);
  }
  Py_RETURN_NONE;
}

static MethodTable methods({
    method<frame_holds>("frame_holds", "frame_holds(frame, object)"),
    method<frame_cell>("frame_cell", "frame_cell(frame, name): the cell of a closure's variable"),
    method<is_a>("is_a", "is_a(value, classes): isinstance() that runs no code of the value's class"),
    method<id, METH_O>("id", "id(object), untold to audit hooks"),
    method<code_of, METH_O>("code_of", "the code of a Python function, untold to audit hooks"),
    method<defaults_of, METH_O>("defaults_of", "its default values, by position and by name"),
    method<own_dict, METH_O>(
        "own_dict",
        "own_dict(object): the dictionary of its attributes, read without its class; None where it has none"),
    method<is_plain_class, METH_O>("is_plain_class",
                                   "whether comparing and hashing a class runs no code of its metaclass"),
    method<has_generic_reads, METH_O>("has_generic_reads",
                                      "whether instances of a class find attributes as `object` does"),
    method<type_name, METH_O>("type_name", "the name of a class in errors of C code"),
    method<type_lookup>("type_lookup", "type_lookup(class, name, default): a member of a class, as it lies there"),
    method<is_python_class, METH_O>("is_python_class", "whether a class statement made this class"),
});

bool init_class_facts(PyObject* module) { return add_functions(module, methods); }

}  // namespace framelift
