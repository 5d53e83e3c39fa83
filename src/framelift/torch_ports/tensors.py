"""Classes of tensors, and functions on them that torch keeps to itself."""

from .port import A_CLASS, Port, area

__getattr__ = area(
    globals(),
    "captures of the operations that are made of it",
    Port(
        "TensorBase",
        "torch._C:TensorBase",
        "tell a tensor's own methods from those that a class of Python adds",
        "every capture",
        instead=A_CLASS,
    ),
    Port(
        "VariableFunctions", "torch._C:_VariableFunctions", "find the C functions behind torch's names", "every capture"
    ),
    Port("VF", "torch._VF", "find the C functions that torch.nn.functional calls"),
    Port("linalg_functions", "torch._C._linalg", "find the C functions of torch.linalg"),
    Port("fft_functions", "torch._C._fft", "find the C functions of torch.fft"),
    Port("special_functions", "torch._C._special", "find the C functions of torch.special"),
    Port("sparse_functions", "torch._C._sparse", "find the C functions of torch.sparse"),
    Port("nested_functions", "torch._C._nested", "find the C functions of torch.nested"),
    Port("nn_functions", "torch._C._nn", "find the C functions behind torch.nn.functional"),
    Port("parse_to", "torch._C._nn:_parse_to", "read the arguments of Tensor.to and Module.to"),
    Port("tensor_module", "torch._tensor", "notice functions of torch that a program replaced"),
    Port("tensor_classes", "torch:_tensor_classes", "capture the older constructors, as torch.FloatTensor(2, 3)"),
    Port("make_subclass", "torch:Tensor._make_subclass", "make stand-ins of a class of tensors"),
    Port("set_conj", "torch._C:_set_conj", "describe tensors that are conjugated lazily"),
    Port("set_neg", "torch._C:_set_neg", "describe tensors that are negated lazily"),
    Port("is_alias_of", "torch._C:_is_alias_of", "tell whether the results of script objects share memory"),
    Port(
        "has_compatible_shallow_copy_type",
        "torch:_has_compatible_shallow_copy_type",
        "capture Module.to and assignments to Tensor.data",
    ),
    Port("foreach_div", "torch:_foreach_div", "capture optimizers that update all parameters at once"),
    Port("foreach_mul", "torch:_foreach_mul", "capture optimizers that update all parameters at once"),
    Port("foreach_pow", "torch:_foreach_pow", "capture optimizers that update all parameters at once"),
    Port("fused_adagrad", "torch:_fused_adagrad_", "capture fused optimizers"),
    Port("fused_adam", "torch:_fused_adam_", "capture fused optimizers"),
    Port("fused_adamw", "torch:_fused_adamw_", "capture fused optimizers"),
    Port("fused_sgd", "torch:_fused_sgd_", "capture fused optimizers"),
    Port(
        "group_tensors_by_device_and_dtype",
        "torch._C:_group_tensors_by_device_and_dtype",
        "capture optimizers that update all parameters at once",
    ),
    Port("multi_tensor_asgd", "torch.optim.asgd:_multi_tensor_asgd", "capture ASGD"),
    Port("single_tensor_asgd", "torch.optim.asgd:_single_tensor_asgd", "capture ASGD"),
    Port(
        "reparametrize_module", "torch.nn.utils.stateless:_reparametrize_module", "capture torch.func.functional_call"
    ),
    Port(
        "infer_parameters",
        "torch.nn.modules.lazy:LazyModuleMixin._infer_parameters",
        "capture the first call of lazy modules",
    ),
    Port(
        "detect_is_causal_mask",
        "torch.nn.modules.transformer:_detect_is_causal_mask",
        "choose the attention kernel of torch.nn.Transformer by the mask",
    ),
    Port("call_impl", "torch.nn:Module._call_impl", "tell the frames of modules' calls from the program's own"),
    Port("PRINT_OPTS", "torch._tensor_str:PRINT_OPTS", "capture programs that print tensors"),
    Port("references", "torch._refs", "find the rules for data types of torch.tensor"),
    Port("numpy_functions", "torch._numpy", "compute with arrays of numpy in a graph", "numpy inside graphs"),
    Port(
        "ELEMENTWISE_TYPE_PROMOTION_KIND",
        "torch._prims_common:ELEMENTWISE_TYPE_PROMOTION_KIND",
        "give floats that change the data types that torch would",
        instead=A_CLASS,
    ),
    Port(
        "elementwise_dtypes",
        "torch._prims_common:elementwise_dtypes",
        "give floats that change the data types that torch would",
    ),
    Port(
        "tensor_symint_registry",
        "torch.nested._internal.nested_tensor:_tensor_symint_registry",
        "share the lengths of jagged tensors",
    ),
    Port("check", "torch:_check", "believe what a program says of numbers of its data"),
    Port("check_with", "torch:_check_with", "raise torch's own errors for failed checks"),
    Port("check_is_size", "torch:_check_is_size", "believe what a program says of numbers of its data"),
    Port("check_tensor_all_with", "torch:_check_tensor_all_with", "believe what a program says of a tensor's values"),
    Port("assert_async", "torch:_assert_async", "export assertions"),
    Port("SDPBackend", "torch._C:_SDPBackend", "read which attention kernels are chosen", instead=A_CLASS),
    Port(
        "cuda_get_device",
        "torch._C:_cuda_getDevice",
        "read the current CUDA device",
        "captures that ask for it",
        instead=None,
        versions="builds with CUDA",
    ),
)
