"""Modes and overrides: what sees torch's calls before the tensors do."""

from .port import A_CLASS, Port, area

__getattr__ = area(
    globals(),
    "modes and subclasses of tensors around and inside compiled code",
    Port(
        "DisableTorchFunction",
        "torch._C:DisableTorchFunction",
        "keep its own calls of torch from modes and subclasses",
        "every capture",
        instead=A_CLASS,
    ),
    Port(
        "DisableTorchFunctionSubclass",
        "torch._C:DisableTorchFunctionSubclass",
        "capture blocks with subclasses' overrides off",
        instead=A_CLASS,
    ),
    Port(
        "EnableTorchFunction",
        "torch._C:_EnableTorchFunction",
        "run a program's code with overrides on",
        "every capture",
        instead=A_CLASS,
    ),
    Port("enable_torch_function", "torch.overrides:_enable_torch_function", "run a program's code with overrides on"),
    Port("TorchFunctionState", "torch._C:_TorchFunctionState", "read whether overrides are off", instead=A_CLASS),
    Port("get_torch_function_state", "torch._C:_get_torch_function_state", "read whether overrides are off"),
    Port("disabled_torch_function_impl", "torch._C:_disabled_torch_function_impl", "know subclasses without overrides"),
    Port(
        "push_on_torch_function_stack",
        "torch._C:_push_on_torch_function_stack",
        "take a program's modes off during a capture",
    ),
    Port(
        "pop_torch_function_stack", "torch._C:_pop_torch_function_stack", "take a program's modes off during a capture"
    ),
    Port(
        "len_torch_function_stack", "torch._C:_len_torch_function_stack", "take a program's modes off during a capture"
    ),
    Port("get_function_stack_at", "torch._C:_get_function_stack_at", "take a program's modes off during a capture"),
    Port(
        "push_on_torch_dispatch_stack",
        "torch._C:_push_on_torch_dispatch_stack",
        "take dispatch modes off during a capture",
    ),
    Port("pop_torch_dispatch_stack", "torch._C:_pop_torch_dispatch_stack", "take dispatch modes off during a capture"),
    Port("len_torch_dispatch_stack", "torch._C:_len_torch_dispatch_stack", "take dispatch modes off during a capture"),
    Port("get_dispatch_stack_at", "torch._C:_get_dispatch_stack_at", "take dispatch modes off during a capture"),
    Port(
        "is_torch_function_mode_enabled", "torch._C:_is_torch_function_mode_enabled", "answer it inside captured code"
    ),
    Port("has_torch_function", "torch._C:_has_torch_function", "answer it inside captured code"),
    Port("has_torch_function_unary", "torch._C:_has_torch_function_unary", "answer it inside captured code"),
    Port("has_torch_function_variadic", "torch._C:_has_torch_function_variadic", "answer it inside captured code"),
    Port("get_overloaded_args", "torch.overrides:_get_overloaded_args", "find which argument's override torch calls"),
    Port("pop_mode", "torch.overrides:_pop_mode", "capture modes that a program pushes by hand"),
    Port("push_mode", "torch.overrides:_push_mode", "capture modes that a program pushes by hand"),
    Port("GLOBAL_DEVICE_CONTEXT", "torch:_GLOBAL_DEVICE_CONTEXT", "read the default device"),
    Port("DeviceContext", "torch.utils._device:DeviceContext", "capture blocks with a default device", instead=A_CLASS),
    Port(
        "disable_current_modes",
        "torch.utils._python_dispatch:_disable_current_modes",
        "compute with real tensors under dispatch modes",
    ),
    Port(
        "is_traceable_wrapper_subclass",
        "torch.utils._python_dispatch:is_traceable_wrapper_subclass",
        "know subclasses that are made of plain tensors",
    ),
    Port("is_functional_tensor", "torch:_is_functional_tensor", "know tensors of functionalization"),
    Port(
        "FunctionalTensor",
        "torch._subclasses.functional_tensor:FunctionalTensor",
        "know tensors of functionalization",
        instead=A_CLASS,
    ),
    Port(
        "SchemaCheckMode",
        "torch._subclasses.schema_check_mode:SchemaCheckMode",
        "check what operations write to (backend eager_debug)",
        instead=A_CLASS,
    ),
    Port("DispatchKey", "torch._C:DispatchKey", "read which kernels a tensor goes to", instead=A_CLASS),
    Port("dispatch_keys", "torch._C:_dispatch_keys", "read which kernels a tensor goes to"),
    Port(
        "dispatch_tls_is_dispatch_key_excluded",
        "torch._C:_dispatch_tls_is_dispatch_key_excluded",
        "leave calls inside dispatch to plain Python",
    ),
)
