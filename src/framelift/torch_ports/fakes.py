"""Tensors without data, and what is true while a compiler works."""

from .port import A_CLASS, Port, area, parts

__getattr__ = area(
    globals(),
    "every capture",
    parts("torch._subclasses.fake_tensor", "describe tensors without data", "FakeTensor FakeTensorMode"),
    parts("torch._subclasses.fake_tensor", "warn of fakes that outlive an export", "fake_tensor_tls"),
    parts(
        "torch.fx.experimental.proxy_tensor",
        "name the node of a fake that outlives an export",
        "nodes_of_fakes=_FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT",
    ),
    parts("torch._subclasses.fake_tensor", "know results that only the data decides", "DataDependentOutputException"),
    parts("torch._subclasses.fake_tensor", "know shapes that only the data decides", "DynamicOutputShapeException"),
    parts("torch._subclasses.fake_tensor", "know tensors that cannot be described", "UnsupportedFakeTensorException"),
    parts("torch._subclasses.fake_tensor", "know operators without a description", "UnsupportedOperatorException"),
    parts("torch._subclasses.fake_tensor", "read constants of exported programs", "unset_fake_temporarily"),
    Port(
        "enable_python_dispatcher",
        "torch._dispatch.python:enable_python_dispatcher",
        "describe operations with symbolic sizes",
        instead=A_CLASS,
    ),
    parts("torch._guards", "hand torch's compilers the facts of a capture", "TracingContext tracing"),
    parts("torch._guards", "compile equal layers once", "detect_fake_mode"),
    parts("torch._guards", "put back the context of a compiler that failed", "_TLS"),
    parts("torch._guards", "number captures for torch's logs", "CompileContext CompileId compile_context"),
    parts("torch._guards", "hand backends the guards of a capture", "Guard GuardsContext"),
    parts("torch._guards", "say where a symbolic size comes from", "GuardSource Source"),
)
