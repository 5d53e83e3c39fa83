"""Vision, sound and language models, in the form of `programs.py`."""

from __future__ import annotations

import torch
from programs import Calls, images, program, sequences, tokens

# ---- vision


@program("vit-pytorch einops")
def deep_vit():
    from vit_pytorch.deepvit import DeepViT

    return DeepViT(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2, heads=2, mlp_dim=64), images()


@program("vit-pytorch einops")
def cross_vit():
    from vit_pytorch.cross_vit import CrossViT

    sizes = {"sm_enc_depth": 1, "sm_enc_heads": 2, "lg_enc_depth": 1, "lg_enc_heads": 2, "depth": 1}
    return CrossViT(image_size=32, num_classes=10, sm_dim=16, lg_dim=32, sm_patch_size=8, lg_patch_size=16, **sizes), (
        images()
    )


@program("vit-pytorch einops")
def cvt():
    from vit_pytorch.cvt import CvT

    names = {f"s{i}_{name}": value for i in (1, 2, 3) for name, value in (("emb_dim", 16), ("heads", 1), ("depth", 1))}
    return CvT(num_classes=10, **names), images()


@program("vit-pytorch einops")
def nest():
    from vit_pytorch.nest import NesT

    model = NesT(image_size=32, patch_size=4, dim=16, heads=2, num_hierarchies=2, block_repeats=(1, 1), num_classes=10)
    return model, images()


@program("vit-pytorch einops")
def mobile_vit():
    from vit_pytorch.mobile_vit import MobileViT

    return MobileViT((64, 64), [16, 16, 16], [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 16], num_classes=10), images(size=64)


@program("vit-pytorch einops")
def compact_transformer():
    from vit_pytorch.cct import CCT

    model = CCT(
        img_size=32, embedding_dim=32, n_conv_layers=1, num_layers=2, num_heads=2, mlp_ratio=2.0, num_classes=10
    )
    return model, images()


@program("timm torchvision")
def timm_convnext():
    import timm

    return timm.create_model("convnext_atto", num_classes=10, depths=(1, 1, 1, 1), dims=(8, 8, 16, 16)), images()


@program("timm torchvision")
def timm_swin():
    import timm

    sizes = {"img_size": 32, "patch_size": 2, "window_size": 4, "embed_dim": 16, "depths": (2, 2), "num_heads": (2, 2)}
    return timm.create_model("swin_tiny_patch4_window7_224", num_classes=10, **sizes), images()


@program("timm torchvision")
def timm_mobilenet():
    import timm

    return timm.create_model("mobilenetv3_small_050", num_classes=10).eval(), images()


@program("efficientnet-pytorch")
def efficientnet():
    from efficientnet_pytorch import EfficientNet

    return EfficientNet.from_name("efficientnet-b0", num_classes=10, image_size=32).eval(), images()


@program("pytorchcv")
def pytorchcv_model():
    from pytorchcv.model_provider import get_model

    return get_model("resnet10", num_classes=10), images(size=224)


@program("lpips torchvision")
def perceptual_distance():
    import lpips

    model = lpips.LPIPS(net="squeeze", pretrained=False, pnet_rand=True, verbose=False).eval()
    return model, lambda n: (torch.rand(n, 3, 64, 64), torch.rand(n, 3, 64, 64))


@program("piq torchvision")
def image_quality():
    import piq

    def f(x, y):
        return piq.ssim(x, y, data_range=1.0), piq.psnr(x, y), piq.total_variation(x), piq.gmsd(x, y)

    return f, lambda n: (torch.rand(n, 3, 32, 32), torch.rand(n, 3, 32, 32))


@program("torch-dct")
def cosine_transform():
    import torch_dct

    return lambda x: torch_dct.idct(torch_dct.dct(x) * 0.5), sequences()


@program("pytorch-wavelets PyWavelets")
def wavelets():
    from pytorch_wavelets import DWTForward

    return DWTForward(J=2, wave="db2", mode="zero"), images()


@program("ptwt PyWavelets")
def wavelet_decomposition():
    import ptwt

    return lambda x: ptwt.wavedec(x, "haar", level=2), lambda n: (torch.rand(n, 32),)


# ---- sound


@program("julius")
def resample():
    import julius

    return julius.ResampleFrac(4, 5), lambda n: (torch.rand(n, 1, 64),)


@program("julius")
def low_pass():
    import julius

    return julius.LowPassFilter(0.2), lambda n: (torch.rand(n, 1, 256),)


@program("torchlibrosa")
def spectrogram():
    from torchlibrosa.stft import Spectrogram

    return Spectrogram(n_fft=64, hop_length=16), lambda n: (torch.rand(n, 512),)


@program("asteroid-filterbanks")
def filterbank():
    from asteroid_filterbanks import STFTFB, Encoder

    return Encoder(STFTFB(32, 32, stride=16)), lambda n: (torch.rand(n, 1, 256),)


@program("transformers")
def whisper():
    from transformers import WhisperConfig, WhisperModel

    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    config = WhisperConfig(
        vocab_size=64,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_mel_bins=8,
        max_source_positions=16,
        max_target_positions=16,
        pad_token_id=0,
        decoder_start_token_id=1,
        bos_token_id=1,
        eos_token_id=2,
        **sizes,
    )
    model = WhisperModel(config).eval()
    forward = Calls(lambda self, x, y: self.model(x, decoder_input_ids=y).last_hidden_state, model=model)
    return forward, lambda n: (torch.rand(n, 8, 32), torch.randint(0, 64, (n, 5)))


# ---- language models


@program("transformers")
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    return Calls(lambda self, x: self.model(x, labels=x).loss, model=LlamaForCausalLM(config)), tokens()


@program("transformers")
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2))
    return Calls(lambda self, x: self.model(x).logits, model=model.eval()), tokens()


@program("transformers")
def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    return Calls(lambda self, x: self.model(x).pooler_output, model=BertModel(config).eval()), tokens()


@program("transformers")
def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=64, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config).eval()
    return Calls(lambda self, x: self.model(input_ids=x, labels=x).loss, model=model), tokens()


@program("transformers")
def mamba():
    from transformers import MambaConfig, MambaModel

    config = MambaConfig(vocab_size=64, hidden_size=16, state_size=4, num_hidden_layers=1, intermediate_size=32)
    return Calls(lambda self, x: self.model(x).last_hidden_state, model=MambaModel(config).eval()), tokens(length=6)


@program("transformers")
def mixture():
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_local_experts=2,
    )
    return Calls(lambda self, x: self.model(x).logits, model=MixtralForCausalLM(config).eval()), tokens()


@program("peft transformers accelerate")
def low_rank():
    import peft
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=1, n_head=2)).eval()
    model = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))
    return Calls(lambda self, x: self.model(x).logits, model=model), tokens()


@program("open-clip-torch timm torchvision ftfy")
def clip():
    import open_clip

    vision = {"image_size": 32, "layers": 1, "width": 64, "patch_size": 8}
    text = {"context_length": 8, "vocab_size": 64, "width": 64, "heads": 2, "layers": 1}
    model = open_clip.CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text)
    return model, lambda n: (torch.rand(n, 3, 32, 32), torch.randint(0, 64, (n, 8)))


@program("x-transformers einops einx loguru")
def x_both():
    from x_transformers import XTransformer

    model = XTransformer(
        dim=32,
        enc_num_tokens=64,
        enc_depth=1,
        enc_heads=2,
        enc_max_seq_len=16,
        dec_num_tokens=64,
        dec_depth=1,
        dec_heads=2,
        dec_max_seq_len=16,
    )
    return model, lambda n: (torch.randint(0, 64, (n, 16)), torch.randint(0, 64, (n, 16)))


@program("x-transformers einops einx loguru")
def x_continuous():
    from x_transformers import ContinuousTransformerWrapper, Encoder

    layers = Encoder(dim=32, depth=2, heads=2, alibi_pos_bias=True, attn_qk_norm=True)
    return ContinuousTransformerWrapper(dim_in=8, dim_out=8, max_seq_len=16, attn_layers=layers), sequences(width=8)


@program("memory-efficient-attention-pytorch einops")
def chunked_attention():
    from memory_efficient_attention_pytorch import Attention

    model = Attention(dim=32, dim_head=16, heads=2, memory_efficient=True, q_bucket_size=8, k_bucket_size=8)
    return model, sequences()


@program("recurrent-memory-transformer-pytorch einops")
def recurrent_memory():
    from recurrent_memory_transformer_pytorch import RecurrentMemoryTransformer

    model = RecurrentMemoryTransformer(dim=32, num_tokens=64, num_memory_tokens=4, depth=1, seq_len=16, heads=2)
    return Calls(lambda self, x: self.model(x)[0], model=model), tokens()


@program("infini-transformer-pytorch einops")
def infinite_attention():
    from infini_transformer_pytorch import InfiniTransformer

    model = InfiniTransformer(num_tokens=64, dim=32, depth=1, dim_head=16, heads=2)
    return Calls(lambda self, x: self.model(x)[0], model=model), tokens()


@program("mixture-of-experts")
def experts():
    from mixture_of_experts import MoE

    return MoE(dim=32, num_experts=2, hidden_dim=32), sequences()


@program("PEER-pytorch einops einx")
def many_experts():
    from PEER_pytorch import PEER

    return PEER(dim=32, heads=2, num_experts=64, num_experts_per_head=4, dim_key=8), sequences()


@program("vector-quantize-pytorch einops einx")
def nearest_codes():
    from vector_quantize_pytorch import VectorQuantize

    return VectorQuantize(dim=16, codebook_size=32).eval(), sequences(width=16)


@program("vector-quantize-pytorch einops einx")
def residual_codes():
    from vector_quantize_pytorch import ResidualFSQ

    return ResidualFSQ(dim=16, levels=[8, 5, 5], num_quantizers=2).eval(), sequences(width=16)


@program("vector-quantize-pytorch einops einx")
def lookup_free():
    from vector_quantize_pytorch import LFQ

    return LFQ(codebook_size=64, dim=6).eval(), sequences(width=6)
