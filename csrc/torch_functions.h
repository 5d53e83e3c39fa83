// Whether this thread looks for `__torch_function__`: torch's own setting, without its header, which pulls in much of
// c10.  In torch_state.cpp.
#pragma once

namespace framelift {

enum class TorchFunctions : int;
extern const TorchFunctions torch_functions_on, torch_functions_off;
TorchFunctions torch_functions();
void set_torch_functions(TorchFunctions functions);

}  // namespace framelift
