/* Another user of PEP 523, as a debugger would be: counts the frames it is given, by the name of their code.
   chain: hand frames on to whom it replaced; otherwise to CPython's own evaluator. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe.h>
#endif
#undef Py_BUILD_CORE

static _PyFrameEvalFunction before = NULL;
static PyObject *names = NULL;
static int chain = 1;

#if PY_VERSION_HEX >= 0x030d0000
#define CODE(f) _PyFrame_GetCode(f)
#else
#define CODE(f) ((f)->f_code)
#endif

static PyObject *evaluate(PyThreadState *ts, struct _PyInterpreterFrame *frame, int throwing) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *name = CODE(frame)->co_name;
  PyObject *old = PyDict_GetItem(names, name);
  PyObject *now = PyLong_FromLong(1 + (old ? PyLong_AsLong(old) : 0));
  PyDict_SetItem(names, name, now);
  Py_DECREF(now);
  PyErr_Restore(type, value, trace);
  return (chain && before ? before : _PyEval_EvalFrameDefault)(ts, frame, throwing);
}
static PyObject *install(PyObject *self, PyObject *flag) {
  PyInterpreterState *interpreter = PyInterpreterState_Get();
  chain = PyObject_IsTrue(flag);
  if (_PyInterpreterState_GetEvalFrameFunc(interpreter) != evaluate) {
    before = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
  }
  Py_RETURN_NONE;
}
static PyObject *uninstall(PyObject *self, PyObject *none) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), before ? before : _PyEval_EvalFrameDefault);
  before = NULL;
  Py_RETURN_NONE;
}
static PyObject *clear(PyObject *self, PyObject *none) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), _PyEval_EvalFrameDefault);
  before = NULL;
  PyDict_Clear(names);
  Py_RETURN_NONE;
}
static PyObject *is_in_front(PyObject *self, PyObject *none) {
  return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate);
}
static PyMethodDef methods[] = {{"install", install, METH_O, "install(chain)"},
                                {"uninstall", uninstall, METH_NOARGS, "put back whom it replaced, whoever is there now"},
                                {"clear", clear, METH_NOARGS, "CPython's own evaluator, no names"},
                                {"is_in_front", is_in_front, METH_NOARGS, "whether frames come to it first"},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "evaluator", NULL, -1, methods};
PyMODINIT_FUNC PyInit_evaluator(void) {
  PyObject *module = PyModule_Create(&definition);
  names = PyDict_New();
  PyModule_AddObjectRef(module, "names", names);
  return module;
}
