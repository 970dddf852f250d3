#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/reference: tiny models of every supported family, and what transformers computes with them.

Each folder holds config.json and model.safetensors as transformers saves them, and reference.safetensors:
  input_ids, labels  [2, 24] i64; labels as transformers takes them, beside the input; -100 is left out
  targets            [2, 24] i64; labels moved one place to the left: what each position has to predict
  logits             [2, 24, vocabulary]
  loss               the mean over the targets that are not -100
  grad.PARAMETER     the gradient of the loss
  inv_freq.KIND      RoPE's inverse frequencies in layers of that kind
  attention_factor.KIND  what cos and sin are multiplied by
rope/ holds configs of which the frequencies alone are of interest.

Parameters are float32. Everything is computed in float64, also where transformers asks for float32 (norms,
softmax, rotary angles, loss), and stored as float32.

  pip install torch transformers safetensors
  python tools/reference/make.py
"""

import json
import math
import pathlib
import shutil

import torch
import transformers
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference"
BATCH, LENGTH = 2, 24

COMMON = dict(
    num_hidden_layers=2,
    max_position_embeddings=512,
    rms_norm_eps=1e-5,
    initializer_range=0.02,
    dtype="float32",
)

MODELS = {
    # Head sizes are not hidden / heads in llama3, mistral, qwen3 and gemma; llama has as many key heads as heads.
    "llama3": ("Llama", dict(
        hidden_size=48, intermediate_size=80, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        vocab_size=128,
        rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                             high_freq_factor=4.0, original_max_position_embeddings=64))),
    "llama": ("Llama", dict(
        hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=4, vocab_size=101)),
    "mistral": ("Mistral", dict(
        hidden_size=48, intermediate_size=72, num_attention_heads=6, num_key_value_heads=2, head_dim=12,
        vocab_size=112, sliding_window=7)),
    "qwen2": ("Qwen2", dict(
        hidden_size=48, intermediate_size=88, num_attention_heads=6, num_key_value_heads=3, vocab_size=120,
        tie_word_embeddings=True,
        rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                             original_max_position_embeddings=128))),
    "qwen3": ("Qwen3", dict(
        hidden_size=40, intermediate_size=72, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        vocab_size=104, use_sliding_window=True, sliding_window=9, max_window_layers=1)),
    # Soft caps small enough to bend the scores and logits.
    "gemma2": ("Gemma2", dict(
        hidden_size=48, intermediate_size=80, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        vocab_size=136, sliding_window=6, query_pre_attn_scalar=24, attn_logit_softcapping=4.0,
        final_logit_softcapping=6.0)),
    "gemma3": ("Gemma3Text", dict(
        num_hidden_layers=3, hidden_size=48, intermediate_size=64, num_attention_heads=4,
        num_key_value_heads=1, head_dim=16, vocab_size=144, sliding_window=8, query_pre_attn_scalar=20,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=dict(
            full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=4.0),
            sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
}

ROPES = {
    "default": (128, dict(rope_type="default", rope_theta=10000.0)),
    "linear": (80, dict(rope_type="linear", rope_theta=10000.0, factor=2.5)),
    "llama3_2": (64, dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0,
                          high_freq_factor=4.0, original_max_position_embeddings=8192)),
    "yarn": (64, dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
                      original_max_position_embeddings=4096)),
    # The correction range is [0, 9], [0, 0] and [0, -3]; then without rounding.
    "yarn_low_0": (64, dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                            original_max_position_embeddings=80)),
    "yarn_low_is_high": (64, dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                  original_max_position_embeddings=6)),
    "yarn_high_below_low": (64, dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                     original_max_position_embeddings=2)),
    "yarn_not_truncated": (64, dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, truncate=False,
                                    original_max_position_embeddings=4096)),
    "yarn_mscale": (64, dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, mscale=0.707,
                             mscale_all_dim=1.0, original_max_position_embeddings=4096)),
    "yarn_attention_factor": (64, dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                       attention_factor=1.25, original_max_position_embeddings=4096)),
    "yarn_factor_below_1": (64, dict(rope_type="yarn", rope_theta=10000.0, factor=0.5,
                                     original_max_position_embeddings=4096)),
}


class Float64(TorchFunctionMode):
    """float64 wherever the code inside asks for float32."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        wide = lambda value: torch.float64 if value is torch.float32 else value
        args = tuple(wide(value) for value in args)
        kwargs = {name: wide(value) for name, value in (kwargs or {}).items()}
        return function(*args, **kwargs)


def frequencies(rotary, kinds):
    """{layer kind: (inverse frequencies, attention factor)}; one for all kinds where a model has one RoPE."""
    nested = isinstance(rotary.rope_type, dict)
    found = {}
    for kind in kinds:
        prefix = f"{kind}_" if nested else ""
        found[kind] = (getattr(rotary, prefix + "inv_freq"), getattr(rotary, prefix + "attention_scaling"))
    return found


def rotary_in_float64(model, kinds):
    """Recomputes the frequencies of `model` in float64, and makes sure that they are those of float32."""
    rotary = model.model.rotary_emb
    before = {kind: value.clone() for kind, (value, _) in frequencies(rotary, kinds).items()}
    with Float64():
        model.model.rotary_emb = type(rotary)(model.config)
    after = frequencies(model.model.rotary_emb, kinds)
    for kind in kinds:
        assert after[kind][0].dtype == torch.float64
        assert torch.allclose(before[kind].double(), after[kind][0], rtol=3e-6, atol=0)
    return after


def randomise(model, unit_offset, generator):
    """Weights large enough that every part of the model shows in the loss."""
    for name, parameter in model.named_parameters():
        if "norm" in name:
            value = 0.5 + torch.rand(parameter.shape, generator=generator)
            value = value - 1.0 if unit_offset else value
        elif name.endswith("bias"):
            value = 0.3 * torch.randn(parameter.shape, generator=generator)
        elif "embed" in name:
            value = 0.4 * torch.randn(parameter.shape, generator=generator)
        else:
            value = 1.2 / math.sqrt(parameter.shape[1]) * torch.randn(parameter.shape, generator=generator)
        with torch.no_grad():
            parameter.copy_(value)


def store(path, tensors):
    single = {
        name: value.detach().to(torch.int64 if not value.is_floating_point() else torch.float32).contiguous()
        for name, value in tensors.items()
    }
    save_file(single, path, metadata={"format": "pt"})


def check_gradient(model, inputs, generator):
    """A central difference along a random direction: one float32 step anywhere would show."""
    parameters = list(model.parameters())
    directions = [torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in parameters]
    slope = sum((p.grad * d).sum() for p, d in zip(parameters, directions))

    def loss_at(step):
        with torch.no_grad():
            for p, d in zip(parameters, directions):
                p.add_(d, alpha=step)
            with Float64():
                loss = model(**inputs).loss
            for p, d in zip(parameters, directions):
                p.sub_(d, alpha=step)
        return loss

    difference = (loss_at(1e-6) - loss_at(-1e-6)) / 2e-6
    assert torch.allclose(difference, slope, rtol=1e-6), (difference, slope)


def make_model(name, family, settings, seed):
    config_class = getattr(transformers, family + "Config")
    model_class = getattr(transformers, family.removesuffix("Text") + "ForCausalLM")
    config = config_class(**{**COMMON, **settings}, attn_implementation="eager")
    generator = torch.Generator().manual_seed(seed)
    model = model_class(config).eval()
    randomise(model, family.startswith("Gemma"), generator)

    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)

    # Gemma's padding token is 0, whose row of the embedding gets no gradient: it does not occur.
    input_ids = torch.randint(3, config.vocab_size, (BATCH, LENGTH), generator=generator)
    labels = input_ids.clone()
    labels[0, :5] = -100
    labels[1, 11:14] = -100
    labels[1, -1] = -100
    targets = torch.full_like(labels, -100)
    targets[:, :-1] = labels[:, 1:]

    model = model.double()
    kinds = sorted(set(getattr(config, "layer_types", None) or ["full_attention"]))
    ropes = rotary_in_float64(model, kinds)
    inputs = dict(input_ids=input_ids, labels=labels, use_cache=False)
    with Float64():
        output = model(**inputs)
    output.loss.backward()
    check_gradient(model, inputs, generator)
    assert output.loss.dtype == output.logits.dtype == torch.float64
    expected = torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), targets.flatten())
    assert torch.allclose(expected, output.loss, rtol=1e-12)

    tensors = dict(input_ids=input_ids, labels=labels, targets=targets, logits=output.logits, loss=output.loss)
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad.abs().max() > 1e-6, parameter_name
        tensors["grad." + parameter_name] = parameter.grad
    for kind, (value, factor) in ropes.items():
        tensors["inv_freq." + kind] = value
        tensors["attention_factor." + kind] = torch.tensor(factor, dtype=torch.float64)
    store(folder / "reference.safetensors", tensors)
    print(f"{name:8} loss {output.loss.item():.6f}, logits up to {output.logits.abs().max().item():.2f}")


def make_ropes():
    folder = FOLDER / "rope"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tensors = {}
    for name, (head_size, rope) in ROPES.items():
        config = transformers.LlamaConfig(
            hidden_size=2 * head_size, num_attention_heads=2, head_dim=head_size, num_hidden_layers=1,
            intermediate_size=8, vocab_size=8, max_position_embeddings=131072, rope_parameters=dict(rope),
            dtype="float32")
        (folder / f"{name}.json").write_text(json.dumps(config.to_diff_dict(), indent=2, sort_keys=True) + "\n")
        with Float64():
            rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
        tensors["inv_freq." + name] = rotary.inv_freq
        tensors["attention_factor." + name] = torch.tensor(rotary.attention_scaling, dtype=torch.float64)
    store(folder / "reference.safetensors", tensors)


def main():
    torch.set_num_threads(1)
    for seed, (name, (family, settings)) in enumerate(MODELS.items()):
        make_model(name, family, settings, seed + 1)
    make_ropes()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
