"""The programs of the corpus: public packages as they come from PyPI, random weights, tiny sizes.

A row is (name, packages, maker); the maker imports the packages and gives (callable, inputs), where `inputs(n)` makes
the arguments for a batch of n.  Nothing of the packages is part of this repository.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Maker = Callable[[], tuple[Any, Callable[[int], tuple[Any, ...]]]]
PROGRAMS: dict[str, tuple[str, Maker]] = {}


def program(packages: str) -> Callable[[Maker], Maker]:
    """Register a program; `packages` are the names on PyPI, of which the first gives the code."""

    def register(maker: Maker) -> Maker:
        PROGRAMS[maker.__name__] = packages, maker
        return maker

    return register


class Calls(nn.Module):
    """A module whose forward is a function of its parts."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._function = forward

    def forward(self, *args: Any) -> Any:
        return self._function(self, *args)


def images(channels: int = 3, size: int = 32) -> Callable[[int], tuple[Any, ...]]:
    return lambda n: (torch.rand(n, channels, size, size),)


def sequences(length: int = 16, width: int = 32) -> Callable[[int], tuple[Any, ...]]:
    return lambda n: (torch.rand(n, length, width),)


def tokens(count: int = 64, length: int = 16) -> Callable[[int], tuple[Any, ...]]:
    return lambda n: (torch.randint(0, count, (n, length)),)


# ---- einops and what is built on it


@program("einops")
def einops_functions():
    from einops import einsum, pack, rearrange, reduce, repeat, unpack

    def f(x):
        y = rearrange(x, "b c (h p) -> b h (c p)", p=4)
        z = repeat(reduce(y, "b h d -> b d", "mean"), "b d -> b n d", n=3)
        packed, shapes = pack([y, z], "b * d")
        a, b = unpack(packed, shapes, "b * d")
        return einsum(a, b, "b i d, b j d -> b i j")

    return f, lambda n: (torch.rand(n, 3, 16),)


@program("einops")
def einops_layers():
    from einops.layers.torch import EinMix, Rearrange, Reduce

    model = nn.Sequential(
        Rearrange("b c (h p) (w q) -> b h w (c p q)", p=4, q=4),
        EinMix("b h w c -> b h w d", weight_shape="c d", bias_shape="d", c=48, d=16),
        Reduce("b h w d -> b d", "mean"),
    )
    return model, images()


@program("einx einops frozendict")
def einx_functions():
    import einx

    return lambda x: einx.mean("b [s] c", einx.id("b s (h c) -> b (s h) c", x, h=2)), sequences()


@program("vit-pytorch einops")
def vit():
    from vit_pytorch import ViT

    return ViT(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2, heads=2, mlp_dim=64), images()


@program("vit-pytorch einops")
def simple_vit():
    from vit_pytorch import SimpleViT

    return SimpleViT(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2, heads=2, mlp_dim=64), images()


@program("vit-pytorch einops")
def cait():
    from vit_pytorch.cait import CaiT

    model = CaiT(
        image_size=32,
        patch_size=8,
        num_classes=10,
        dim=32,
        depth=2,
        cls_depth=1,
        heads=2,
        mlp_dim=64,
        layer_dropout=0.0,
    )
    return model, images()


@program("vit-pytorch einops")
def max_vit():
    from vit_pytorch.max_vit import MaxViT

    return MaxViT(num_classes=10, dim_conv_stem=8, dim=8, dim_head=8, depth=(1, 1), window_size=2), images()


@program("x-transformers einops einx loguru")
def x_decoder():
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True)
    return TransformerWrapper(num_tokens=64, max_seq_len=64, attn_layers=layers), tokens()


@program("x-transformers einops einx loguru")
def x_encoder():
    from x_transformers import Encoder, TransformerWrapper

    layers = Encoder(dim=32, depth=2, heads=2, ff_glu=True, use_rmsnorm=True)
    return TransformerWrapper(num_tokens=64, max_seq_len=64, attn_layers=layers), tokens()


@program("local-attention einops hyper-connections")
def local_attention():
    from local_attention import LocalAttention

    layer = LocalAttention(dim=16, window_size=8, causal=True, look_forward=0, autopad=True)
    return layer, lambda n: tuple(torch.rand(n, 2, 32, 16) for _ in range(3))


@program("local-attention einops hyper-connections")
def local_transformer():
    from local_attention import LocalTransformer

    model = LocalTransformer(num_tokens=64, dim=32, depth=2, heads=2, max_seq_len=32, local_attn_window_size=8)
    return model, tokens(length=32)


@program("rotary-embedding-torch einops")
def rotary():
    from rotary_embedding_torch import RotaryEmbedding

    def forward(self, q, k):
        return self.rotary.rotate_queries_or_keys(q) + self.rotary.rotate_queries_or_keys(k)

    return Calls(forward, rotary=RotaryEmbedding(dim=8)), lambda n: tuple(torch.rand(n, 2, 16, 16) for _ in range(2))


@program("performer-pytorch local-attention axial-positional-embedding einops")
def performer():
    from performer_pytorch import Performer

    return Performer(dim=32, depth=2, heads=2, dim_head=16, causal=False), sequences()


@program("linformer")
def linformer():
    from linformer import Linformer

    return Linformer(dim=32, seq_len=16, depth=2, heads=2, k=8), sequences()


@program("perceiver-pytorch einops")
def perceiver():
    from perceiver_pytorch import PerceiverIO

    model = PerceiverIO(dim=32, queries_dim=32, num_latents=8, latent_dim=16, depth=1)
    return model, sequences()


@program("nystrom-attention einops")
def nystrom():
    from nystrom_attention import NystromAttention

    return NystromAttention(dim=32, dim_head=16, heads=2, num_landmarks=4, pinv_iterations=2), sequences()


@program("linear-attention-transformer einops local-attention product-key-memory")
def linear_attention():
    from linear_attention_transformer import LinearAttentionTransformer

    return LinearAttentionTransformer(dim=32, heads=2, depth=2, max_seq_len=16), sequences()


@program("axial-attention")
def axial_attention():
    from axial_attention import AxialAttention

    return AxialAttention(dim=16, dim_index=1, heads=2, num_dimensions=2), images(16, 8)


@program("sinkhorn-transformer local-attention product-key-memory axial-positional-embedding")
def sinkhorn():
    from sinkhorn_transformer import SinkhornTransformer

    return SinkhornTransformer(dim=32, heads=2, depth=1, bucket_size=8), sequences()


@program("reformer-pytorch local-attention product-key-memory axial-positional-embedding einops")
def reformer():
    from reformer_pytorch import LSHSelfAttention

    return LSHSelfAttention(dim=32, heads=2, bucket_size=8, n_hashes=2), sequences(length=32)


@program("conformer einops")
def conformer():
    from conformer import ConformerBlock

    return ConformerBlock(dim=32, dim_head=16, heads=2), sequences()


@program("mlp-mixer-pytorch einops")
def mlp_mixer():
    from mlp_mixer_pytorch import MLPMixer

    return MLPMixer(image_size=32, channels=3, patch_size=8, dim=32, depth=2, num_classes=10), images()


@program("g-mlp-pytorch einops")
def g_mlp():
    from g_mlp_pytorch import gMLPVision

    return gMLPVision(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2), images()


@program("siren-pytorch einops")
def siren():
    from siren_pytorch import SirenNet

    return SirenNet(dim_in=2, dim_hidden=16, dim_out=3, num_layers=3), lambda n: (torch.rand(n, 2),)


@program("halonet-pytorch einops")
def halonet():
    from halonet_pytorch import HaloAttention

    return HaloAttention(dim=16, block_size=4, halo_size=2, dim_head=8, heads=2), images(16, 8)


@program("timesformer-pytorch einops rotary-embedding-torch")
def timesformer():
    from timesformer_pytorch import TimeSformer

    model = TimeSformer(dim=32, image_size=16, patch_size=8, num_frames=2, num_classes=4, depth=1, heads=2, dim_head=16)
    return model, lambda n: (torch.rand(n, 2, 3, 16, 16),)


@program("slot-attention einops")
def slot_attention():
    from slot_attention import SlotAttention

    def forward(self, x):
        torch.manual_seed(0)
        return self.slots(x)

    return Calls(forward, slots=SlotAttention(num_slots=3, dim=32, iters=2)), sequences()


@program("soft-moe-pytorch einops")
def soft_moe():
    from soft_moe_pytorch import SoftMoE

    return SoftMoE(dim=32, seq_len=16, num_experts=2), sequences()


@program("egnn-pytorch einops")
def egnn():
    from egnn_pytorch import EGNN

    return EGNN(dim=16), lambda n: (torch.rand(n, 6, 16), torch.rand(n, 6, 3))


@program("vector-quantize-pytorch einops einx")
def vector_quantize():
    from vector_quantize_pytorch import FSQ

    return FSQ(levels=[8, 5, 5]), lambda n: (torch.rand(n, 16, 3),)


@program("bidirectional-cross-attention einops")
def cross_attention():
    from bidirectional_cross_attention import BidirectionalCrossAttention

    model = BidirectionalCrossAttention(dim=16, heads=2, dim_head=8, context_dim=16)
    return model, lambda n: (torch.rand(n, 8, 16), torch.rand(n, 6, 16))


# ---- vision


@program("timm torchvision")
def timm_resnet():
    import timm

    return timm.create_model("resnet10t", num_classes=10), images()


@program("timm torchvision")
def timm_vit():
    import timm

    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
    return timm.create_model("vit_tiny_patch16_224", num_classes=10, **sizes), images()


@program("timm torchvision")
def timm_maxvit():
    import timm

    return timm.create_model("maxvit_rmlp_pico_rw_256", img_size=64, num_classes=10), images(size=64)


@program("torchvision")
def torchvision_resnet():
    import torchvision

    return torchvision.models.resnet18(num_classes=10), images()


@program("segmentation-models-pytorch timm torchvision")
def unet():
    import segmentation_models_pytorch as smp

    return smp.Unet("resnet18", encoder_weights=None, classes=2), images()


@program("monai")
def monai_unet():
    from monai.networks.nets import UNet

    return UNet(2, 1, 2, channels=(4, 8, 16), strides=(2, 2)), images(1)


@program("kornia kornia-rs")
def kornia_filters():
    import kornia

    return lambda x: kornia.filters.sobel(kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))), images()


@program("kornia kornia-rs")
def kornia_geometry():
    import kornia

    def f(x, angle):
        return kornia.geometry.transform.rotate(x, angle)

    return f, lambda n: (torch.rand(n, 3, 16, 16), torch.rand(n))


@program("pytorch-msssim")
def ssim():
    from pytorch_msssim import ssim as measure

    return lambda x, y: measure(x, y, data_range=1.0), lambda n: (torch.rand(n, 3, 32, 32), torch.rand(n, 3, 32, 32))


# ---- solvers, probability, graphs, equivariance


@program("torchdiffeq")
def ode_fixed():
    from torchdiffeq import odeint

    def forward(self, x):
        return odeint(lambda t, y: torch.tanh(self.net(y)), x, torch.linspace(0, 1, 5), method="rk4")

    return Calls(forward, net=nn.Linear(4, 4)), lambda n: (torch.rand(n, 4),)


@program("torchdiffeq")
def ode_adaptive():
    from torchdiffeq import odeint

    def forward(self, x):
        return odeint(lambda t, y: torch.tanh(self.net(y)), x, torch.linspace(0, 1, 3), method="dopri5")

    return Calls(forward, net=nn.Linear(4, 4)), lambda n: (torch.rand(n, 4),)


@program("torchode torchtyping")
def ode_parallel():
    import torchode

    def forward(self, x):
        term = torchode.ODETerm(lambda t, y: torch.tanh(self.net(y)))
        step = torchode.Euler(term=term)
        solver = torchode.AutoDiffAdjoint(step, torchode.FixedStepController())
        times = torch.linspace(0, 1, 3).expand(x.shape[0], 3)
        problem = torchode.InitialValueProblem(y0=x, t_eval=times)
        return solver.solve(problem, dt0=torch.full((x.shape[0],), 0.1)).ys

    return Calls(forward, net=nn.Linear(4, 4)), lambda n: (torch.rand(n, 4),)


@program("zuko")
def flow():
    import zuko

    model = zuko.flows.NSF(features=3, transforms=2, hidden_features=(16,))
    return Calls(lambda self, x: self.flow().log_prob(x), flow=model), lambda n: (torch.rand(n, 3),)


@program("gpytorch linear-operator jaxtyping wadler-lindig")
def gp_kernel():
    import gpytorch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    return Calls(lambda self, x: self.kernel(x).to_dense(), kernel=kernel), lambda n: (torch.rand(n, 5, 2),)


@program("pyro-ppl pyro-api opt-einsum")
def pyro_distribution():
    import pyro.distributions as dist

    def f(loc, x):
        return dist.Normal(loc, 1.0).to_event(1).log_prob(x)

    return f, lambda n: (torch.rand(n, 3), torch.rand(n, 3))


@program("torch-geometric")
def gcn():
    from torch_geometric.nn import GCNConv

    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    first, second = GCNConv(8, 16), GCNConv(16, 4)
    model = Calls(lambda self, x: self.second(self.first(x, edges).relu(), edges), first=first, second=second)
    return model, lambda n: (torch.rand(4 + n, 8),)


@program("torch-geometric")
def gat():
    from torch_geometric.nn import GATConv, global_mean_pool

    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])

    def forward(self, x):
        return global_mean_pool(self.conv(x, edges), torch.zeros(x.shape[0], dtype=torch.long))

    return Calls(forward, conv=GATConv(8, 4, heads=2)), lambda n: (torch.rand(4 + n, 8),)


@program("e3nn opt-einsum-fx opt_einsum")
def equivariant():
    from e3nn import o3

    return o3.Linear("4x0e+2x1o", "2x0e+1x1o"), lambda n: (torch.rand(n, 10),)


@program("e3nn opt-einsum-fx opt_einsum")
def spherical_harmonics():
    from e3nn import o3

    return lambda x: o3.spherical_harmonics([0, 1, 2], x, normalize=True), lambda n: (torch.rand(n, 3),)


# ---- losses, metrics, optimizers


@program("entmax")
def entmax_function():
    from entmax import entmax15

    return lambda x: entmax15(x, dim=-1), lambda n: (torch.rand(n, 8),)


@program("geomloss")
def sinkhorn_loss():
    from geomloss import SamplesLoss

    return SamplesLoss("energy", backend="tensorized"), lambda n: (torch.rand(n, 6, 2), torch.rand(n, 6, 2))


@program("pytorch-metric-learning")
def contrastive_loss():
    from pytorch_metric_learning import losses

    loss = losses.NTXentLoss()
    return lambda x, y: loss(x, y), lambda n: (torch.rand(2 * n, 8), torch.arange(2 * n) // 2)


@program("torchmetrics lightning-utilities")
def metrics():
    from torchmetrics.functional import mean_squared_error, pearson_corrcoef

    def f(x, y):
        return mean_squared_error(x, y) + pearson_corrcoef(x, y)

    return f, lambda n: (torch.rand(8 * n), torch.rand(8 * n))


def step_of(make: Callable[[Any], Any]) -> tuple[Any, Callable[[int], tuple[Any, ...]]]:
    """A training step with an optimizer inside; the model begins anew in each program."""
    model = nn.Linear(8, 8)
    optimizer = make(model.parameters())
    if hasattr(optimizer, "train"):
        optimizer.train()

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, lambda n: (torch.rand(n, 8),)


@program("lion-pytorch")
def lion_step():
    from lion_pytorch import Lion

    return step_of(lambda params: Lion(params, lr=1e-3))


@program("schedulefree")
def schedule_free_step():
    from schedulefree import AdamWScheduleFree

    return step_of(lambda params: AdamWScheduleFree(params, lr=1e-3, foreach=False))


@program("pytorch-optimizer")
def lamb_step():
    from pytorch_optimizer import Lamb

    return step_of(lambda params: Lamb(params, lr=1e-3))


@program("prodigyopt")
def prodigy_step():
    from prodigyopt import Prodigy

    return step_of(lambda params: Prodigy(params))


@program("ema-pytorch")
def moving_average():
    from ema_pytorch import EMA

    net = nn.Linear(8, 8)
    average = EMA(net, beta=0.99, update_every=1, update_after_step=0)

    def f(x):
        average.update()
        return average(x)

    return f, lambda n: (torch.rand(n, 8),)


@program("torchjd")
def several_losses():
    from torchjd.aggregation import UPGrad

    return UPGrad(), lambda n: (torch.rand(n + 1, 8),)
