"""The drop-in: unmodified programs whose torch.compile is framelift.  TorchDynamo's tracer is poisoned throughout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import framelift
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

GENERATE = """
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.configuration_utils import CompileConfig
torch.manual_seed(0)
torch.set_num_threads(1)
config = LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                     max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=63)
model = LlamaForCausalLM(config).eval()
inputs = torch.tensor([[1, 5, 9, 3]])
def generate(**extra):
    return model.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=4, do_sample=False, cache_implementation="static", **extra)
want = generate(disable_compile=True)
compile_config = CompileConfig(backend="eager", fullgraph=False, mode=None)
compile_config._compile_all_devices = True
got = generate(compile_config=compile_config)
assert torch.equal(want, got), (want, got)
"""

PROGRAMS = {"training": TRAINING, "tutorial": TUTORIAL, "generate": GENERATE}
COUNT = "\nimport framelift\nassert framelift.counters['stats']['unique_graphs'], framelift.counters\nprint('fine')\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_unmodified_programs(name: str, tmp_path: Path) -> None:
    if name == "generate":
        pytest.importorskip("transformers")
    script = tmp_path / "script.py"
    script.write_text(POISONED + PROGRAMS[name] + COUNT)
    done = subprocess.run([sys.executable, "-m", "framelift", "run", str(script)], capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
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
            torch.compile(Module(), backend="eager"), data)
    assert framelift.counters["stats"]["unique_graphs"]


def test_uninstall_restores_everything() -> None:
    before = {(module, name): getattr(sys.modules[module], name) for module, names in framelift.compat.REDIRECTS.items() if module in sys.modules
              for name in names if hasattr(sys.modules[module], name)}
    finders = list(sys.meta_path)
    with framelift.installed():
        assert torch.compile is framelift.compile and framelift.is_installed()
        with framelift.installed():
            pass
        assert framelift.is_installed()
    assert all(getattr(sys.modules[module], name) is value for (module, name), value in before.items())
    assert sys.meta_path == finders and not framelift.is_installed()


def test_importing_torchdynamo_later_redirects_it() -> None:
    program = ("import torch, sys, framelift\nframelift.install()\nassert 'torch._dynamo' not in sys.modules\nimport torch._dynamo\n"
               "assert torch._dynamo.graph_break is framelift.graph_break and torch._dynamo.exc.Unsupported is framelift.exc.Unsupported\n"
               "torch._dynamo.config.suppress_errors = True\nassert framelift.config.suppress_errors\n"
               "framelift.uninstall()\nassert torch._dynamo.graph_break is not framelift.graph_break\ntorch._dynamo.config.suppress_errors = False\n"
               "assert framelift.config.suppress_errors\nprint('fine')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert done.stdout.strip() == "fine", done.stdout + done.stderr[-2000:]


def test_the_exit_status_is_the_scripts(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; sys.exit(len(sys.argv))")
    environment = {**ENVIRONMENT, "PATH": os.environ.get("PATH", "")}
    assert subprocess.run([sys.executable, "-m", "framelift", "run", str(script), "a", "b"], env=environment, timeout=120).returncode == 3
