// The scope of framelift's own look at a program's objects: no torch-function mode and no overriding subclass sees it.
#pragma once
#include "torch_functions.h"

namespace framelift {

struct Unseen {
  TorchFunctions before = torch_functions();
  Unseen() { set_torch_functions(torch_functions_off); }
  ~Unseen() { set_torch_functions(before); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

}  // namespace framelift
