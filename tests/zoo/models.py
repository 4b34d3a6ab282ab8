"""Architectures of the transformers package: small configurations, random weights.

Each entry makes a module and what it is called with. The modules are the package's own, so that
archives carry their nested results and keyword arguments.
"""

import torch
import transformers

WIDTH = 32
VOCABULARY = 96
LENGTH = 11


def tokens(batch=2, length=LENGTH):
    """Token numbers, none of them special."""
    return torch.randint(5, VOCABULARY, (batch, length))


def image(size=32, batch=2):
    return torch.randn(batch, 3, size, size)


# The names that most configurations share.
TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": 2 * WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
GROUPED = TEXT | {"num_key_value_heads": 2, "use_cache": False, "pad_token_id": 0}
EXPERTS = GROUPED | {
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "experts_implementation": "batched_mm",
}
VISION = {
    "hidden_size": WIDTH,
    "intermediate_size": 2 * WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
SEQUENCES = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 2 * WIDTH,
    "decoder_ffn_dim": 2 * WIDTH,
    "max_position_embeddings": 64,
    "use_cache": False,
}
SPEECH = TEXT | {
    "conv_dim": (16, 16),
    "conv_kernel": (5, 3),
    "conv_stride": (4, 2),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "apply_spec_augment": False,
}


def model(config, head, **settings):
    """`transformers.<config>Config` with `settings`, under `transformers.<config><head>`."""
    configuration = getattr(transformers, config + "Config")(**settings)
    return getattr(transformers, config + head)(configuration).eval()


def decoder(config, head="ForCausalLM", **settings):
    return lambda: (model(config, head, **settings), (), {"input_ids": tokens()})


def encoder(config, head="Model", **settings):
    def make():
        mask = torch.ones(2, LENGTH, dtype=torch.long)
        mask[1, -3:] = 0
        return model(config, head, **settings), (), {"input_ids": tokens(), "attention_mask": mask}

    return make


def sequences(config, head="ForConditionalGeneration", **settings):
    def make():
        inputs = {"input_ids": tokens(), "decoder_input_ids": tokens(length=7), "use_cache": False}
        return model(config, head, **settings), (), inputs

    return make


def vision(config, head="Model", size=32, **settings):
    return lambda: (model(config, head, **settings), (), {"pixel_values": image(size)})


def speech(config, head="Model", **settings):
    return lambda: (model(config, head, **settings), (), {"input_values": torch.randn(2, 800)})


def whisper():
    settings = SEQUENCES | {
        "num_mel_bins": 16, "max_source_positions": 40, "max_target_positions": 32,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3,
    }
    settings.pop("max_position_embeddings")
    inputs = {"input_features": torch.randn(1, 16, 80), "decoder_input_ids": tokens(1, 6)}
    module = model("Whisper", "ForConditionalGeneration", **settings)
    return module, (), inputs | {"use_cache": False}


def clip():
    text = TEXT | {"projection_dim": 16, "bos_token_id": 1, "eos_token_id": 2}
    module = model("CLIP", "Model", text_config=text, vision_config=VISION | {"projection_dim": 16},
                   projection_dim=16)
    return module, (), {"input_ids": tokens(), "pixel_values": image()}


def patch_series():
    module = model("PatchTST", "ForPrediction", num_input_channels=3, context_length=32,
                   patch_length=4, patch_stride=4, prediction_length=6, d_model=16, ffn_dim=32,
                   num_hidden_layers=2, num_attention_heads=4)
    return module, (), {"past_values": torch.randn(2, 32, 3)}


# Name to (family, maker).
MODELS = {
    "gpt2": ("decoder", decoder("GPT2", "LMHeadModel", n_embd=WIDTH, n_layer=2, n_head=4,
                                vocab_size=VOCABULARY, n_positions=64, use_cache=False)),
    "llama": ("decoder", decoder("Llama", **GROUPED)),
    "qwen3": ("decoder", decoder("Qwen3", head_dim=8, **GROUPED)),
    "gemma2": ("decoder", decoder("Gemma2", head_dim=8, sliding_window=8, **GROUPED)),
    "phi": ("decoder", decoder("Phi", **GROUPED)),
    "opt": ("decoder", decoder("OPT", ffn_dim=64, word_embed_proj_dim=WIDTH, use_cache=False,
                               **TEXT)),
    "bloom": ("decoder", decoder("Bloom", n_layer=2, n_head=4, hidden_size=WIDTH,
                                 vocab_size=VOCABULARY, use_cache=False)),
    "gpt_neox": ("decoder", decoder("GPTNeoX", use_cache=False, **TEXT)),
    "mixtral": ("mixture of experts", decoder("Mixtral", **EXPERTS)),
    "qwen3_moe": ("mixture of experts", decoder("Qwen3Moe", head_dim=8, moe_intermediate_size=16,
                                                **EXPERTS)),
    "mamba": ("recurrent", decoder("Mamba", hidden_size=WIDTH, num_hidden_layers=2, state_size=4,
                                   vocab_size=VOCABULARY, use_cache=False)),
    "rwkv": ("recurrent", decoder("Rwkv", hidden_size=WIDTH, num_hidden_layers=2,
                                  attention_hidden_size=WIDTH, vocab_size=VOCABULARY,
                                  context_length=64, use_cache=False)),
    "recurrent_gemma": ("recurrent", decoder("RecurrentGemma", lru_width=WIDTH,
                                             attention_window_size=8, **GROUPED)),
    "bert": ("encoder", encoder("Bert", **TEXT)),
    "roberta": ("encoder", encoder("Roberta", "ForMaskedLM", **TEXT)),
    "distilbert": ("encoder", encoder("DistilBert", dim=WIDTH, hidden_dim=64, n_layers=2, n_heads=4,
                                      vocab_size=VOCABULARY, max_position_embeddings=64)),
    "electra": ("encoder", encoder("Electra", "ForSequenceClassification", embedding_size=16,
                                   **TEXT)),
    "deberta": ("encoder", encoder("DebertaV2", relative_attention=True, position_buckets=8,
                                   pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm",
                                   share_att_key=True, **TEXT)),
    "albert": ("encoder", encoder("Albert", embedding_size=16, **TEXT)),
    "fnet": ("Fourier transforms", decoder("FNet", "Model", **TEXT)),
    "t5": ("encoder and decoder", sequences("T5", d_model=WIDTH, d_kv=8, d_ff=64, num_layers=2,
                                            num_heads=4, vocab_size=VOCABULARY,
                                            decoder_start_token_id=0)),
    "bart": ("encoder and decoder", sequences("Bart", **SEQUENCES)),
    "vit": ("vision transformer", vision("ViT", "ForImageClassification", **VISION)),
    "dinov2": ("vision transformer", vision("Dinov2", **VISION)),
    "swin": ("vision transformer", vision("Swin", image_size=32, patch_size=4, embed_dim=16,
                                          depths=[2, 2], num_heads=[2, 4], window_size=4)),
    "segformer": ("vision transformer", vision(
        "Segformer", "ForSemanticSegmentation", size=64, num_encoder_blocks=2, depths=[1, 1],
        sr_ratios=[4, 2], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16)),
    "resnet": ("convolutional", vision("ResNet", "ForImageClassification", embedding_size=8,
                                       hidden_sizes=[8, 16], depths=[1, 2])),
    "convnext": ("convolutional", vision("ConvNext", "ForImageClassification",
                                         hidden_sizes=[8, 16], depths=[1, 2], num_stages=2)),
    "mobilenet": ("convolutional", vision("MobileNetV2", "ForImageClassification",
                                          depth_multiplier=0.25, image_size=32)),
    "clip": ("text and images", clip),
    "whisper": ("speech", whisper),
    "wav2vec2": ("speech", speech("Wav2Vec2", "ForCTC", **SPEECH)),
    "spectrogram": ("speech", lambda: (
        model("AST", "Model", max_length=40, num_mel_bins=16, patch_size=8, frequency_stride=8,
              time_stride=8, **{k: v for k, v in VISION.items() if k not in
                                ("image_size", "patch_size")}),
        (), {"input_values": torch.randn(2, 40, 16)})),
    "patch_series": ("time series", patch_series),
}
