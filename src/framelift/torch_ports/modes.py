"""Modes and overrides: what sees torch's calls before the tensors do."""

from .port import area, parts

__getattr__ = area(
    globals(),
    "modes and subclasses of tensors around and inside compiled code",
    parts(
        "torch._C",
        "keep its own calls of torch from modes and subclasses",
        "DisableTorchFunction",
        lost="every capture",
    ),
    parts("torch._C", "capture blocks with subclasses' overrides off", "DisableTorchFunctionSubclass"),
    parts("torch._C", "run a program's code with overrides on", "_EnableTorchFunction", lost="every capture"),
    parts("torch.overrides", "run a program's code with overrides on", "_enable_torch_function"),
    parts("torch._C", "read whether overrides are off", "_TorchFunctionState _get_torch_function_state"),
    parts("torch._C", "know subclasses without overrides", "_disabled_torch_function_impl"),
    parts(
        "torch._C",
        "take a program's modes off during a capture",
        "_push_on_torch_function_stack _pop_torch_function_stack _len_torch_function_stack _get_function_stack_at",
    ),
    parts(
        "torch._C",
        "take dispatch modes off during a capture",
        "_push_on_torch_dispatch_stack _pop_torch_dispatch_stack _len_torch_dispatch_stack _get_dispatch_stack_at",
    ),
    parts(
        "torch._C",
        "answer it inside captured code",
        "_is_torch_function_mode_enabled _has_torch_function _has_torch_function_unary _has_torch_function_variadic",
    ),
    parts("torch.overrides", "find which argument's override torch calls", "_get_overloaded_args"),
    parts("torch.overrides", "capture modes that a program pushes by hand", "_pop_mode _push_mode"),
    parts("torch", "read the default device", "_GLOBAL_DEVICE_CONTEXT"),
    parts("torch.utils._device", "capture blocks with a default device", "DeviceContext"),
    parts("torch.utils._python_dispatch", "compute with real tensors under dispatch modes", "_disable_current_modes"),
    parts(
        "torch.utils._python_dispatch",
        "know subclasses that are made of plain tensors",
        "is_traceable_wrapper_subclass",
    ),
    parts("torch", "know tensors of functionalization", "_is_functional_tensor"),
    parts("torch._subclasses.functional_tensor", "know tensors of functionalization", "FunctionalTensor"),
    parts(
        "torch._subclasses.schema_check_mode", "check what operations write to (backend eager_debug)", "SchemaCheckMode"
    ),
    parts("torch._C", "read which kernels a tensor goes to", "DispatchKey _dispatch_keys"),
    parts("torch._C", "leave calls inside dispatch to plain Python", "_dispatch_tls_is_dispatch_key_excluded"),
)
