"""Tensors without data, and what is true while a compiler works."""

from .port import A_CLASS, AN_ERROR, Port, area

__getattr__ = area(
    globals(),
    "every capture",
    Port("FakeTensor", "torch._subclasses.fake_tensor:FakeTensor", "describe tensors without data", instead=A_CLASS),
    Port(
        "FakeTensorMode",
        "torch._subclasses.fake_tensor:FakeTensorMode",
        "describe tensors without data",
        instead=A_CLASS,
    ),
    Port("fake_tensor_tls", "torch._subclasses.fake_tensor:fake_tensor_tls", "warn of fakes that outlive an export"),
    Port(
        "nodes_of_fakes",
        "torch.fx.experimental.proxy_tensor:_FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT",
        "name the node of a fake that outlives an export",
    ),
    Port(
        "DataDependentOutputException",
        "torch._subclasses.fake_tensor:DataDependentOutputException",
        "know results that only the data decides",
        instead=AN_ERROR,
    ),
    Port(
        "DynamicOutputShapeException",
        "torch._subclasses.fake_tensor:DynamicOutputShapeException",
        "know shapes that only the data decides",
        instead=AN_ERROR,
    ),
    Port(
        "UnsupportedFakeTensorException",
        "torch._subclasses.fake_tensor:UnsupportedFakeTensorException",
        "know tensors that cannot be described",
        instead=AN_ERROR,
    ),
    Port(
        "UnsupportedOperatorException",
        "torch._subclasses.fake_tensor:UnsupportedOperatorException",
        "know operators without a description",
        instead=AN_ERROR,
    ),
    Port(
        "unset_fake_temporarily",
        "torch._subclasses.fake_tensor:unset_fake_temporarily",
        "read constants of exported programs",
    ),
    Port(
        "enable_python_dispatcher",
        "torch._dispatch.python:enable_python_dispatcher",
        "describe operations with symbolic sizes",
        instead=A_CLASS,
    ),
    Port(
        "TracingContext",
        "torch._guards:TracingContext",
        "hand torch's compilers the facts of a capture",
        instead=A_CLASS,
    ),
    Port("tracing", "torch._guards:tracing", "hand torch's compilers the facts of a capture"),
    Port("detect_fake_mode", "torch._guards:detect_fake_mode", "compile equal layers once"),
    Port("TLS", "torch._guards:_TLS", "put back the context of a compiler that failed"),
    Port("CompileContext", "torch._guards:CompileContext", "number captures for torch's logs", instead=A_CLASS),
    Port("CompileId", "torch._guards:CompileId", "number captures for torch's logs", instead=A_CLASS),
    Port("compile_context", "torch._guards:compile_context", "number captures for torch's logs"),
    Port("Guard", "torch._guards:Guard", "hand backends the guards of a capture", instead=A_CLASS),
    Port("GuardSource", "torch._guards:GuardSource", "say where a symbolic size comes from", instead=A_CLASS),
    Port("GuardsContext", "torch._guards:GuardsContext", "hand backends the guards of a capture", instead=A_CLASS),
    Port("Source", "torch._guards:Source", "say where a symbolic size comes from", instead=A_CLASS),
)
