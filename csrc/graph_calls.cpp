// GraphCall: a call of a compiled graph whose failures are looked into.  In C, so that a call that does not fail costs
// no Python frame and no second tuple of all inputs.
#include "barrier.h"
#include "reference.h"
#include "state.h"
#include "tensor_class.h"

namespace framelift {

struct GraphCallObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *graph, *failed, *refused;
};
static PyTypeObject GraphCall_Type = {PyVarObject_HEAD_INIT(nullptr, 0)};

static bool is_in_chain_of(PyObject* exception, PyObject* value) {
  for (Ref at = Ref::new_ref(value); at; at = Ref::steal(PyException_GetContext(at.get())))
    if (at.get() == exception) return true;
  return false;
}

// What is raised while the failure is looked into leaves in its place, with it as its context.
static void look_into_failure(PyObject* failed, PyObject* const* inputs, Py_ssize_t count) {
  SavedError error;
  error.normalize();
  PyObject* value = error.value();
  if (value && PyExceptionInstance_Check(value)) {
    if (error.traceback()) PyException_SetTraceback(value, error.traceback());
    Ref given = tuple_of(inputs, count);
    if (given && Ref::steal(PyObject_CallFunctionObjArgs(failed, value, given.get(), nullptr))) return error.restore();
    SavedError second;
    second.normalize();
    PyObject* raised = second.value();
    if (raised && PyExceptionInstance_Check(raised) && !is_in_chain_of(raised, value))
      PyException_SetContext(raised, Py_NewRef(value));
    return second.restore();
  }
  error.restore();
}

static PyObject* graph_call(PyObject* object, PyObject* const* inputs, size_t nargsf, PyObject* kwnames) {
  GraphCallObject* self = (GraphCallObject*)object;
  Ref graph = Ref::new_ref(self->graph), failed = Ref::new_ref(self->failed), refused = Ref::new_ref(self->refused);
  if (!graph || !failed) {
    PyErr_SetString(PyExc_RuntimeError, "the graph was already cleared by the garbage collector");
    return nullptr;
  }
  PyObject* result = PyObject_Vectorcall(graph.get(), inputs, nargsf, kwnames);
  if (!result && PyErr_ExceptionMatches(PyExc_Exception))
    look_into_failure(failed.get(), inputs, PyVectorcall_NARGS(nargsf));
  if (!result || !refused || !is_tensor(result)) return result;
  return PyObject_CallOneArg(refused.get(), Ref::steal(result).get());
}

static PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *graph, *failed, *refused = nullptr;
  if (!PyArg_ParseTuple(args, "OO|O", &graph, &failed, &refused)) return nullptr;
  GraphCallObject* self = (GraphCallObject*)type->tp_alloc(type, 0);
  if (!self) return nullptr;
  self->vectorcall = slot<graph_call>;
  self->graph = Py_NewRef(graph), self->failed = Py_NewRef(failed), self->refused = Py_XNewRef(refused);
  return (PyObject*)self;
}

bool init_graph_calls(PyObject* module) {
  define<GraphCallObject>(GraphCall_Type, "framelift._core.GraphCall", slot<create>,
         Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
         "GraphCall(graph, failed, refused): calls the graph; where it raises an Exception, failed(exception, inputs) "
         "is called first; where it gives a tensor, no sequence of them, refused(tensor) in its place.");
  Members<GraphCallObject, &GraphCallObject::graph, &GraphCallObject::failed, &GraphCallObject::refused>::put_in(
      GraphCall_Type);
  GraphCall_Type.tp_vectorcall_offset = offsetof(GraphCallObject, vectorcall);
  GraphCall_Type.tp_call = PyVectorcall_Call;
  return PyModule_AddType(module, &GraphCall_Type) == 0;
}

}  // namespace framelift
