"""Differentiation, function transforms, and the state that belongs to them."""

from .port import Port, area, parts

__getattr__ = area(
    globals(),
    "training and function transforms inside graphs",
    parts("torch._C", "switch gradients in graphs and entries", "_set_grad_enabled", lost="every capture"),
    Port(
        "is_grad_enabled",
        "torch._C:is_grad_enabled",
        "read whether gradients are on",
        others=("torch:is_grad_enabled",),
    ),
    parts("torch.autograd.grad_mode", "switch inference mode in graphs", "_enter_inference_mode _exit_inference_mode"),
    parts("torch._C", "read and switch forward-mode differentiation", "_is_fwd_grad_enabled _set_fwd_grad_enabled"),
    parts("torch._C", "capture forward-mode differentiation", "_exit_dual_level"),
    Port(
        "dual_level", "torch.autograd.forward_ad:_current_level", "capture forward-mode differentiation", variable=True
    ),
    parts("torch", "capture forward-mode differentiation", "_make_dual _unpack_dual"),
    parts("torch._C", "know the contexts of autograd.Function", "_FunctionBase"),
    parts("torch.autograd.function", "read which methods an autograd.Function overrides", "_SingleLevelFunction"),
    parts("torch.autograd.graph", "tell a program's own backward calls", "_engine_run_backward"),
    parts("torch._C._autograd", "find the C functions of autograd", "autograd_functions="),
    parts("torch._C._autograd", "know how views may be written to", "_get_creation_meta"),
    parts("torch._C._autograd", "capture Tensor.data", "_get_data_attr"),
    parts("torch._C._autograd", "put back version counters after a failed graph", "_unsafe_set_version_counter"),
    parts(
        "torch._C._autograd",
        "capture hooks on saved tensors",
        "push_saved_hooks=_push_saved_tensors_default_hooks pop_saved_hooks=_pop_saved_tensors_default_hooks  "
        "top_saved_hooks=_top_saved_tensors_default_hooks saved_hooks_disable=_saved_tensors_hooks_disable  "
        "saved_hooks_enable=_saved_tensors_hooks_enable  "
        "saved_hooks_error=_saved_tensors_hooks_get_disabled_error_message",
    ),
    parts("torch._C", "find the C functions of forward-mode differentiation", "torch_c="),
    parts("torch._C._functorch", "capture function transforms", "functorch="),
    parts("torch._C._functorch", "capture torch.cond below vmap", "is_batchedtensor"),
    parts("torch._C._functorch", "know tensors of function transforms", "is_functorch_wrapped_tensor"),
    parts("torch._C._functorch", "see function transforms around a call", "peek_interpreter_stack"),
    parts("torch._functorch.eager_transforms", "capture function transforms", "eager_transforms="),
    parts("torch._functorch.vmap", "capture function transforms", "vmap_module="),
    Port("predispatch", "torch._functorch.predispatch", "capture function transforms", instead=None),
    parts("torch._functorch.autograd_function", "export autograd.Function", "autograd_function_module="),
)
