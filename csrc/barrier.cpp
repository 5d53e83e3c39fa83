// See barrier.h.
#include "barrier.h"

#include <torch/csrc/Exceptions.h>

#include <exception>
#include <new>

#include "reference.h"

namespace framelift {

void raise_cpp_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception&) {  // c10::Error and torch's python_error among them
    torch::translate_exception_to_python(std::current_exception());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "framelift: a C++ exception of an unknown kind");
  }
}

void report_cpp_exception() noexcept {
  KeepError keep;
  raise_cpp_exception();
  PyErr_WriteUnraisable(nullptr);
}

}  // namespace framelift
