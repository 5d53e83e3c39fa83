"""Diffusion, tables, solvers, geometry, records, losses and optimizers, in the form of `programs.py`."""

from __future__ import annotations

import torch
from programs import Calls, images, program, sequences, step_of
from torch import nn

# ---- diffusion


@program("denoising-diffusion-pytorch einops ema-pytorch accelerate")
def denoising_unet():
    from denoising_diffusion_pytorch import Unet

    return Unet(dim=8, dim_mults=(1, 2), flash_attn=False), lambda n: (torch.rand(n, 3, 16, 16), torch.arange(n))


@program("diffusers")
def diffusers_unet():
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    forward = Calls(lambda self, x, t: self.model(x, t).sample, model=model)
    return forward, lambda n: (torch.rand(n, 3, 16, 16), torch.arange(n))


@program("diffusers")
def diffusers_vae():
    from diffusers import AutoencoderKL

    model = AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=4).eval()
    return Calls(lambda self, x: self.model.decode(self.model.encode(x).latent_dist.mode()).sample, model=model), (
        images(size=16)
    )


@program("diffusers")
def noise_schedule():
    from diffusers import DDPMScheduler

    scheduler = DDPMScheduler(num_train_timesteps=10)
    return lambda x, noise: scheduler.add_noise(x, noise, torch.arange(x.shape[0])), lambda n: (
        torch.rand(n, 3, 8, 8),
        torch.rand(n, 3, 8, 8),
    )


@program("diffusers")
def denoising_steps():
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler(num_train_timesteps=10)
    scheduler.set_timesteps(3)

    def f(x):
        for t in scheduler.timesteps:
            x = scheduler.step(x.tanh(), t, x).prev_sample
        return x

    return f, lambda n: (torch.rand(n, 3, 8, 8),)


# ---- tables, series, recurrent networks


@program("rtdl-revisiting-models rtdl-num-embeddings")
def feature_tokens():
    from rtdl_revisiting_models import FTTransformer

    sizes = FTTransformer.get_default_kwargs(n_blocks=1)
    model = FTTransformer(n_cont_features=3, cat_cardinalities=[4], d_out=1, **sizes).eval()
    return model, lambda n: (torch.rand(n, 3), torch.randint(0, 4, (n, 1)))


@program("rtdl-num-embeddings")
def number_embeddings():
    from rtdl_num_embeddings import PeriodicEmbeddings

    return PeriodicEmbeddings(3, 8, lite=False), lambda n: (torch.rand(n, 3),)


@program("pytorch-tabnet")
def tabnet():
    from pytorch_tabnet.tab_network import TabNetNoEmbeddings

    model = TabNetNoEmbeddings(8, 2, n_d=4, n_a=4, n_steps=2, group_attention_matrix=torch.eye(8)).eval()
    return model, lambda n: (torch.rand(n, 8),)


@program("pytorch-tcn")
def temporal_convolution():
    from pytorch_tcn import TCN

    return TCN(num_inputs=4, num_channels=[8, 8], kernel_size=3).eval(), lambda n: (torch.rand(n, 4, 16),)


@program("ncps")
def liquid_network():
    from ncps.torch import CfC

    return Calls(lambda self, x: self.cell(x)[0], cell=CfC(4, 8)), sequences(8, 4)


@program("pytorch-crf")
def random_field():
    from torchcrf import CRF

    return CRF(5, batch_first=True), lambda n: (torch.rand(n, 6, 5), torch.randint(0, 5, (n, 6)))


# ---- solvers, geometry, physics


@program("torchsde trampoline boltons")
def sde():
    import torchsde

    class Field(nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self):
            super().__init__()
            self.net = nn.Linear(3, 3)

        def f(self, t, y):
            return self.net(y)

        def g(self, t, y):
            return 0.1 * y

    def forward(self, x):
        noise = torchsde.BrownianInterval(
            t0=0.0, t1=1.0, size=tuple(x.shape), entropy=1, levy_area_approximation="space-time"
        )
        return torchsde.sdeint(self.field, x, torch.linspace(0, 1, 3), dt=0.5, bm=noise)

    return Calls(forward, field=Field()), lambda n: (torch.rand(n, 3),)


@program("torchcde torchdiffeq torchsde")
def controlled_path():
    import torchcde

    def f(x):
        path = torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(x))
        return path.evaluate(1.5), path.derivative(0.5)

    return f, sequences(6, 2)


@program("roma")
def rotations():
    import roma

    def f(q):
        r = roma.unitquat_to_rotmat(roma.quat_normalize(q))
        return roma.rotmat_to_rotvec(r), roma.special_procrustes(r + 0.1)

    return f, lambda n: (torch.rand(n, 4),)


@program("geoopt")
def hyperbolic():
    import geoopt

    ball = geoopt.PoincareBall()
    return lambda x, y: ball.dist(ball.expmap0(x), ball.projx(y)), lambda n: (torch.rand(n, 3), torch.rand(n, 3) / 4)


@program("neuraloperator tensorly tensorly-torch opt-einsum")
def fourier_operator():
    from neuralop.models import FNO

    return FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=1), images(1, 16)


@program("tensorly")
def tucker():
    import tensorly
    from tensorly.tenalg import multi_mode_dot

    tensorly.set_backend("pytorch")
    return lambda x, a, b: multi_mode_dot(x, [a, b], modes=[1, 2]), lambda n: (
        torch.rand(n, 4, 5),
        torch.rand(3, 4),
        torch.rand(2, 5),
    )


@program("pykan")
def spline_network():
    from kan.spline import coef2curve

    grid = torch.linspace(-1, 1, 12).expand(3, 12).contiguous()
    return lambda x, c: coef2curve(x, grid, c, k=3), lambda n: (torch.rand(n, 3), torch.rand(3, 2, 8))


@program("normflows")
def real_flow():
    import normflows

    flows = [normflows.flows.AffineCouplingBlock(normflows.nets.MLP([1, 8, 2], init_zeros=True)) for _ in range(2)]
    model = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), flows)
    return Calls(lambda self, x: self.flow.log_prob(x), flow=model), lambda n: (torch.rand(n, 2),)


@program("nflows")
def coupling_flow():
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms import CompositeTransform, MaskedAffineAutoregressiveTransform, ReversePermutation

    parts = [ReversePermutation(features=3), MaskedAffineAutoregressiveTransform(features=3, hidden_features=8)]
    model = Flow(CompositeTransform(parts), StandardNormal([3]))
    return Calls(lambda self, x: self.flow.log_prob(x), flow=model), lambda n: (torch.rand(n, 3),)


@program("botorch gpytorch linear-operator pyro-ppl pyre-extensions")
def test_functions():
    from botorch.test_functions import Ackley, Branin

    first, second = Ackley(dim=2), Branin()
    return lambda x: first(x) + second(x), lambda n: (torch.rand(n, 2),)


@program("torch-geometric")
def sage():
    from torch_geometric.nn import SAGEConv

    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    return Calls(lambda self, x: self.conv(x, edges), conv=SAGEConv(8, 4)), lambda n: (torch.rand(4 + n, 8),)


@program("torch-geometric")
def graph_network():
    from torch_geometric.nn import GIN

    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    model = GIN(8, 8, num_layers=2, out_channels=4)
    return Calls(lambda self, x: self.net(x, edges), net=model), lambda n: (torch.rand(4 + n, 8),)


@program("en-transformer einops")
def equivariant_transformer():
    from en_transformer import EnTransformer

    model = EnTransformer(dim=32, depth=1, dim_head=32, heads=2)
    return model, lambda n: (torch.rand(n, 5, 32), torch.rand(n, 5, 3))


@program("invariant-point-attention einops")
def invariant_points():
    from invariant_point_attention import InvariantPointAttention

    model = InvariantPointAttention(dim=16, heads=2, require_pairwise_repr=False)
    turns = torch.eye(3)

    def forward(self, x, places):
        return self.ipa(x, rotations=turns.expand(*x.shape[:2], 3, 3), translations=places)

    return Calls(forward, ipa=model), lambda n: (torch.rand(n, 5, 16), torch.rand(n, 5, 3))


# ---- records, losses, gradients, reinforcement learning


@program("tensordict")
def records():
    from tensordict import TensorDict

    def f(x):
        record = TensorDict({"a": x, "b": {"c": x * 2}}, batch_size=[x.shape[0]])
        return record["b", "c"] + (record + 1)["a"]

    return f, lambda n: (torch.rand(n, 3),)


@program("torchrl tensordict")
def advantages():
    from torchrl.objectives.value.functional import generalized_advantage_estimate as estimate

    def f(values, following, rewards):
        done = torch.zeros_like(rewards, dtype=torch.bool)
        return estimate(0.9, 0.8, values, following, rewards, done, done)

    return f, lambda n: tuple(torch.rand(n, 5, 1) for _ in range(3))


@program("stable-baselines3 gymnasium")
def policy():
    import gymnasium
    from stable_baselines3.common.policies import ActorCriticPolicy

    box = gymnasium.spaces.Box(-1, 1, (4,))
    model = ActorCriticPolicy(box, gymnasium.spaces.Discrete(2), lambda _: 1e-3, net_arch=[8])
    return Calls(lambda self, x: self.policy.predict_values(x), policy=model), lambda n: (torch.rand(n, 4),)


@program("captum")
def attributions():
    from captum.attr import IntegratedGradients

    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    return lambda x: IntegratedGradients(model).attribute(x, n_steps=4), lambda n: (torch.rand(n, 4),)


@program("segmentation-models-pytorch timm torchvision")
def dice_loss():
    import segmentation_models_pytorch as smp

    loss = smp.losses.DiceLoss("binary")
    return lambda x, y: loss(x, y), lambda n: (torch.rand(n, 1, 8, 8), torch.rand(n, 1, 8, 8).round())


@program("segmentation-models-pytorch timm torchvision")
def focal_loss():
    import segmentation_models_pytorch as smp

    loss = smp.losses.FocalLoss("multiclass")
    return lambda x, y: loss(x, y), lambda n: (torch.rand(n, 4, 8, 8), torch.randint(0, 4, (n, 8, 8)))


@program("pytorch-metric-learning")
def triplet_loss():
    from pytorch_metric_learning import losses

    loss = losses.ProxyAnchorLoss(4, 8)
    return Calls(lambda self, x, y: self.loss(x, y), loss=loss), lambda n: (
        torch.rand(2 * n, 8),
        torch.arange(2 * n) % 4,
    )


@program("torchmetrics lightning-utilities")
def accuracy():
    from torchmetrics.functional import accuracy as measure

    def f(x, y):
        return measure(x, y, task="multiclass", num_classes=4, validate_args=False)

    return f, lambda n: (torch.rand(4 * n, 4), torch.randint(0, 4, (4 * n,)))


@program("sparsemax")
def sparse_maximum():
    from sparsemax import Sparsemax

    return Sparsemax(dim=-1), lambda n: (torch.rand(n, 8),)


@program("monai")
def monai_loss():
    from monai.losses import DiceCELoss

    return DiceCELoss(sigmoid=True), lambda n: (torch.rand(n, 1, 8, 8), torch.rand(n, 1, 8, 8).round())


@program("kornia kornia-rs")
def kornia_colors():
    import kornia

    return lambda x: kornia.color.rgb_to_hsv(kornia.color.rgb_to_lab(x).sigmoid()), images(size=8)


@program("zuko")
def autoregressive_flow():
    import zuko

    model = zuko.flows.MAF(features=3, transforms=1, hidden_features=(8,))
    return Calls(lambda self, x: self.flow().log_prob(x), flow=model), lambda n: (torch.rand(n, 3),)


@program("opacus")
def sequence_layers():
    from opacus.layers import DPMultiheadAttention

    return Calls(lambda self, x: self.layer(x, x, x)[0], layer=DPMultiheadAttention(16, 2)), sequences(width=16)


@program("madgrad")
def madgrad_step():
    from madgrad import MADGRAD

    return step_of(lambda params: MADGRAD(params, lr=1e-3))


@program("adabelief-pytorch")
def adabelief_step():
    from adabelief_pytorch import AdaBelief

    return step_of(lambda params: AdaBelief(params, lr=1e-3, print_change_log=False))


@program("adam-atan2-pytorch")
def atan_step():
    from adam_atan2_pytorch import AdamAtan2

    return step_of(lambda params: AdamAtan2(params, lr=1e-3))


@program("dadaptation")
def adapted_step():
    from dadaptation import DAdaptAdam

    return step_of(lambda params: DAdaptAdam(params))


@program("torch-optimizer pytorch-ranger")
def diffgrad_step():
    from torch_optimizer import DiffGrad

    return step_of(lambda params: DiffGrad(params, lr=1e-3))
