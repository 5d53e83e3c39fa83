// The scope of framelift's own look at a program's objects: no torch-function mode and no overriding subclass sees it.
#pragma once
#include <ATen/PythonTorchFunctionTLS.h>

namespace framelift {

struct Unseen {
  at::impl::TorchFunctionDisabledState before = at::impl::PythonTorchFunctionTLS::get_disabled_state();
  Unseen() { at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED); }
  ~Unseen() { at::impl::PythonTorchFunctionTLS::set_disabled_state(before); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

}  // namespace framelift
