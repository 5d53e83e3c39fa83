"""The drop-in: unmodified programs whose torch.compile is framelift.  TorchDynamo's tracer is poisoned throughout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import framelift
from framelift.surface.cli import main
from test_no_dynamo import ENVIRONMENT, POISON

POISONED = POISON.replace('torch.compile = poisoned("torch.compile")\n', "").replace("import framelift\n", "")

TRAINING = """
import torch
from torch import nn
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    def forward(self, x):
        return self.layers(x)

def train(compiled):
    torch.manual_seed(0)
    model = Net()
    run = torch.compile(model, backend="eager") if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for epoch in range(2):
        for _ in range(3):
            x, y = torch.randn(4, 8), torch.randint(0, 2, (4,))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(run(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses

assert train(True) == train(False)

import torch._dynamo   # whose graph_break, which torch.optim calls, is framelift's then
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 8)).sum().backward()
torch.compile(lambda: optimizer.step(), backend="eager", fullgraph=True)()
"""

TUTORIAL = """
import torch

@torch.compile(backend="eager")
def foo(x, y):
    return torch.sin(x) + torch.cos(y)

opt = torch.compile(lambda x: x.relu(), backend="aot_eager", fullgraph=True)

@torch.compiler.disable(recursive=True, reason="prints")
def log(x):
    return x

@torch.compile(backend="eager")
def with_break(x):
    x = x + 1
    x = log(x)
    return x * 2

net = torch.nn.Linear(3, 3)
net.compile(backend="eager")
x = torch.randn(3)
assert torch.equal(foo(x, x), torch.sin(x) + torch.cos(x))
assert torch.equal(opt(x), x.relu())
assert torch.equal(with_break(x), (x + 1) * 2)
assert torch.equal(net(x), torch.nn.functional.linear(x, net.weight, net.bias))
with torch.compiler.set_stance("force_eager"):
    foo(x, x)
torch.compiler.reset()
assert torch.equal(foo(x, x), torch.sin(x) + torch.cos(x))

import torch._dynamo
torch._dynamo.reset()
torch._dynamo.config.recompile_limit = 3
counter = []
def backend(gm, inputs):
    counter.append(gm)
    return gm.forward
torch._dynamo.optimize(backend)(lambda x: x + 1)(x)
assert len(counter) == 1
try:
    torch.compile(lambda x: x.sum().item() > 0 and x, fullgraph=True, backend="eager")(x)
except torch._dynamo.exc.Unsupported:
    pass
"""

MORE = """
import torch, functools
from torch import nn
torch.manual_seed(0)

# an optimizer's step and a learning rate schedule
model = nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01))
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=3)
@torch.compile(backend="eager", fullgraph=False)
def step():
    optimizer.step()
    schedule.step()
for _ in range(3):
    model(torch.randn(2, 4)).sum().backward()
    step()

# regional compilation: one layer at a time
layers = nn.ModuleList([torch.compile(nn.Linear(4, 4), backend="eager") for _ in range(3)])
x = torch.randn(2, 4)
y = x
for layer in layers:
    y = layer(y)
assert y.shape == x.shape and len(nn.Sequential(*layers).state_dict()) == 6

# a backend of one's own, through AOTAutograd
from functorch.compile import make_boxed_func
import torch._dynamo
from torch._dynamo.backends.common import aot_autograd
seen = []
def compiler(gm, examples):
    seen.append(gm)
    return make_boxed_func(gm.forward)
f = torch.compile(lambda a: (a.sin() * 2).sum(), backend=aot_autograd(fw_compiler=compiler))
a = torch.randn(3, requires_grad=True)
f(a).backward()
assert len(seen) == 2 and torch.allclose(a.grad, 2 * a.detach().cos())

# transforms, autocast, dynamic sizes, scaled_dot_product_attention, checkpointing
per_sample = torch.compile(torch.vmap(lambda v: v * v.sum()), backend="eager")
assert torch.equal(per_sample(x), torch.stack([v * v.sum() for v in x]))
@torch.compile(backend="eager")
def mixed(v):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model(v)
assert mixed(x).dtype is torch.bfloat16
torch._dynamo.mark_dynamic(x, 0)
double = torch.compile(lambda v: v * 2, backend="eager", dynamic=True)
assert torch.equal(double(x), x * 2) and torch.equal(double(torch.ones(5, 4)), torch.ones(5, 4) * 2)
from torch.utils.checkpoint import checkpoint
again = torch.compile(lambda v: checkpoint(lambda t: model(t).relu(), v, use_reentrant=False), backend="aot_eager")
again(x).sum().backward()

# graph breaks, explained
@torch.compile(backend="eager")
def branchy(v):
    if v.sum() > 0:
        return v + 1
    return v - 1
for v in (torch.ones(2), -torch.ones(2)):
    assert torch.equal(branchy(v), v + 1 if v.sum() > 0 else v - 1)
found = torch._dynamo.explain(lambda v: v.sin() if v.sum() > 0 else v)(torch.ones(2))
assert found.graph_break_count >= 1 and found.break_reasons
assert "inductor" in torch.compiler.list_backends()
"""

GENERATE = """
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.configuration_utils import CompileConfig
torch.manual_seed(0)
torch.set_num_threads(1)
config = LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                     num_attention_heads=2, num_key_value_heads=2,
                     max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=63)
model = LlamaForCausalLM(config).eval()
inputs = torch.tensor([[1, 5, 9, 3]])
def generate(**extra):
    return model.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=4, do_sample=False,
                          cache_implementation="static", **extra)
want = generate(disable_compile=True)
compile_config = CompileConfig(backend="eager", fullgraph=False, mode=None)
compile_config._compile_all_devices = True
got = generate(compile_config=compile_config)
assert torch.equal(want, got), (want, got)
"""

EXPORT = """
import torch.export

class Chooses(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def forward(self, x):
        by_size = torch.cond(x.shape[0] > 3, lambda v: self.layer(v), lambda v: v - 1.0, (x,))
        return by_size, torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

module, x = Chooses(), torch.randn(5, 4)
rows = torch.export.Dim("rows", min=2, max=32)
for strict in (True, False):
    program = torch.export.export(module, (x,), dynamic_shapes=({0: rows},), strict=strict)
    for given in (x, torch.randn(2, 4)):
        for got, want in zip(program.module()(given), module(given)):
            torch.testing.assert_close(got, want)
graph, guards = torch._dynamo.export(lambda v: {"w": v.sin()})(x)
assert torch.equal(graph(torch.ones(3, 3))["w"], torch.ones(3, 3).sin())
"""

PROGRAMS = {
    "scripts": TRAINING + MORE + TUTORIAL + EXPORT,
    "generate": GENERATE,
}  # one process for many: starting it is most of the cost
COUNT = "\nimport framelift\nassert framelift.counters['stats']['unique_graphs'], framelift.counters\nprint('fine')\n"


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_unmodified_programs(name: str, device: str, tmp_path: Path) -> None:
    if name == "generate":
        pytest.importorskip("transformers")
    script = tmp_path / "script.py"
    place = "" if device == "cpu" else f"torch.set_default_device({device!r})\n"
    script.write_text(POISONED + place + PROGRAMS[name].replace('autocast("cpu"', f'autocast("{device}"') + COUNT)
    done = subprocess.run(
        [sys.executable, "-m", "framelift", "run", str(script)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=300,
    )
    assert done.returncode == 0 and done.stdout.strip().endswith("fine"), done.stdout + done.stderr[-3000:]


def test_lightning_trainer() -> None:
    pytest.importorskip("lightning")
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, _index):
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    with framelift.installed():
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4)), batch_size=4)
        lightning.Trainer(max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False).fit(
            torch.compile(Module(), backend="eager"), data
        )
    assert framelift.counters["stats"]["unique_graphs"]


def test_uninstall_restores_everything() -> None:
    before = {
        (module, name): getattr(sys.modules[module], name)
        for module, names in framelift.drop_in.REDIRECTS.items()
        if module in sys.modules
        for name in names
        if hasattr(sys.modules[module], name)
    }
    finders = list(sys.meta_path)
    with framelift.installed():
        assert torch.compile is framelift.compile and framelift.is_installed()
        with framelift.installed():
            pass
        assert framelift.is_installed()
    assert all(getattr(sys.modules[module], name) is value for (module, name), value in before.items())
    assert sys.meta_path == finders and not framelift.is_installed()


def test_importing_torchdynamo_later_redirects_it() -> None:
    program = (
        "import torch, sys, framelift\nframelift.install()\nassert 'torch._dynamo' not in sys.modules\n"
        "import torch._dynamo\n"
        "assert torch._dynamo.graph_break is framelift.graph_break\n"
        "assert issubclass(framelift.exc.Unsupported, torch._dynamo.exc.Unsupported)\n"
        "torch._dynamo.config.suppress_errors = True\nassert framelift.config.suppress_errors\n"
        "framelift.uninstall()\nassert torch._dynamo.graph_break is not framelift.graph_break\n"
        "torch._dynamo.config.suppress_errors = False\n"
        "assert framelift.config.suppress_errors\nprint('fine')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert done.stdout.strip() == "fine", done.stdout + done.stderr[-2000:]


def test_torch_disallows_its_own_functions() -> None:
    program = (
        "import torch, framelift\nframelift.install()\n"
        "out, along = torch.func.linearize(torch.sin, torch.zeros(2))\n"
        "f = torch.compile(lambda x: torch.func.linearize(torch.sin, x)[0] + 1, backend='eager')\n"
        "print(along(torch.ones(2)).tolist(), f(torch.zeros(2)).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert done.stdout.strip() == "[1.0, 1.0] [1.0, 1.0]", done.stdout + done.stderr[-2000:]


EXCEPTIONS = """
import pickle, sys, torch, framelift
import torch.export._trace, torch._dynamo
from torch._dynamo import exc
before = dict(vars(exc))
framelift.compile  # loads framelift: ConstraintViolation is torch's, too, from then on
bases = {name: getattr(framelift.exc, name).__bases__ for name in framelift.exc.__all__}
framelift.install()
x = torch.ones(3)

# who catches TorchDynamo's exceptions catches framelift's of the same name, and these are what they were
def decides(x):
    return x if x.sum() > 0 else -x
def refusing(graph_module, inputs):
    raise ValueError("no")
def skipping(graph_module, inputs):
    raise exc.SkipFrame("not this one")
for kind, call in ((exc.Unsupported, lambda: torch.compile(decides, backend="eager", fullgraph=True)(x)),
                   (exc.BackendCompilerFailed, lambda: torch.compile(decides, backend=refusing)(x)),
                   (exc.InvalidBackend, lambda: torch.compile(decides, backend="no such backend")(x)),
                   (exc.TorchDynamoException, lambda: torch.compile(decides, backend="eager", fullgraph=True)(x))):
    try:
        call()
    except kind as error:
        copy = pickle.loads(pickle.dumps(error))
        assert isinstance(error, framelift.exc.FrameliftError), error
        assert type(copy) is type(error) and str(copy) == str(error), error
    else:
        raise AssertionError(kind)
assert torch.equal(torch.compile(decides, backend=skipping)(x), x)

# TorchDynamo itself, which other parts of torch start, raises and catches its own
class Decides(torch.nn.Module):
    def forward(self, x):
        return decides(x)
for options in (dict(msg="m", gb_type="g", skip_frame=True), dict(msg="m", case_name="c", real_stack=None)):
    assert exc.Unsupported(**options).msg == "m"
for trace in (torch.export._trace._export, torch.export.draft_export):
    try:
        trace(Decides(), (x,), strict=True)
    except exc.Unsupported as error:
        assert type(error) is exc.Unsupported and "Data-dependent branching" in str(error), error
    else:
        raise AssertionError(trace)
assert torch.export._trace._export(torch.nn.ReLU(), (x,), strict=True).module()(x).shape == x.shape

framelift.uninstall()
assert all(vars(exc)[name] is value for name, value in before.items() if isinstance(value, type))
assert all(getattr(framelift.exc, name).__bases__ == value for name, value in bases.items())
print("fine")
"""


def test_exceptions_are_torchdynamos_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXCEPTIONS], capture_output=True, text=True, env=ENVIRONMENT, timeout=240
    )
    assert done.stdout.strip().endswith("fine"), done.stdout + done.stderr[-2000:]


def test_the_exit_status_is_the_scripts(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch, framelift; assert torch.compile is framelift.compile; sys.exit(len(sys.argv))"
    )
    assert main(["run", str(script), "a", "b"]) == 3
    assert torch.compile is not framelift.compile
