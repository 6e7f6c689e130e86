"""Makes tiny models of random weights whose memories obey other rules than plain attention's.

The container is GGUF version 3, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

WIDTH, INNER, STATE, KERNEL, RANK = 32, 64, 8, 4, 4
HEADS, KV_HEADS, HEAD = 2, 1, 16
FEED, EXPERTS = 48, 4
T5_BUCKETS = 8
SLIDING_WINDOW = 16  # tokens that a sliding layer of the Gemma looks back, its own included
CONTEXT = 1024


def _letter(character: str) -> str:
    """The visible letter that byte-pair vocabularies write a character of ASCII as."""
    byte = ord(character)
    return chr(289 if byte == 127 else byte + 256 * (byte < 33))


_WORDS = "a and bird door fox had he her his in it king little not of old on rain said she so the to was"
_TEXTS = [
    *(chr(byte) for byte in range(128)),
    *(" " + word for word in _WORDS.split()), *(" " + word.title() for word in _WORDS.split()),
    ". ", ".", "!", "? ", "\n", ", ", '"',
]  # fmt: skip
_TOKENS = ["<end>", *dict.fromkeys("".join(map(_letter, text)) for text in _TEXTS)]
_ALIGNMENT = 32
_U32, _I32, _F32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9  # enum gguf_type

Tensors: TypeAlias = dict[str, NDArray[np.float32]]
Metadata: TypeAlias = list[tuple[str, int, Any]]
Layer: TypeAlias = "Callable[[str, np.random.Generator], Tensors]"


def make_mamba(path: Path, seed: int = 1) -> Path:
    """A memory of one state a sequence, which cannot be cut. The same seed gives the same file."""
    metadata = _common("mamba", layers=2) + _ssm("mamba")
    metadata += [("mamba.feed_forward_length", _U32, 0), ("mamba.attention.head_count", _U32, 0)]
    return _make(path, metadata, [_mamba_layer] * 2, seed)


def make_jamba(path: Path, seed: int = 1) -> Path:
    """A hybrid memory: cells for the attention layers, and one state a sequence for the others."""
    layers: list[Layer] = [_jamba_mamba, _jamba_attention, _jamba_mamba, _jamba_attention]
    heads = [KV_HEADS if layer is _jamba_attention else 0 for layer in layers]
    metadata = _common("jamba", layers=len(layers)) + _ssm("jamba")
    metadata += [
        ("jamba.feed_forward_length", _U32, FEED),
        ("jamba.attention.head_count", _U32, HEADS),
        ("jamba.attention.head_count_kv", _ARRAY, (_I32, heads)),
    ]
    return _make(path, metadata, layers, seed)


def make_gemma(path: Path, seed: int = 1) -> Path:
    """A memory of two caches: every other layer sees the last ``SLIDING_WINDOW`` tokens only."""
    return _gemma(path, seed, {})


def _gemma(path: Path, seed: int, damaged: dict[str, int]) -> Path:
    """``damaged`` names tensors, and the row of each that is no number."""
    metadata = _common("gemma3", layers=4)
    metadata += [
        ("gemma3.feed_forward_length", _U32, FEED),
        ("gemma3.attention.head_count", _U32, HEADS),
        ("gemma3.attention.head_count_kv", _U32, KV_HEADS),
        ("gemma3.attention.key_length", _U32, HEAD),
        ("gemma3.attention.value_length", _U32, HEAD),
        ("gemma3.attention.sliding_window", _U32, SLIDING_WINDOW),
        ("gemma3.attention.sliding_window_pattern", _U32, 2),
    ]
    return _make(path, metadata, [_gemma_layer] * 4, seed, damaged)


def make_without_numbers(path: Path, seed: int = 1) -> Path:
    """A damaged model: one of its weights is no number, and so nothing that comes of it is."""
    return _gemma(path, seed, {"output_norm.weight": 3})


def make_with_a_token_without_number(path: Path, seed: int = 1) -> Path:
    """Only the logit of the last token is no number."""
    return _gemma(path, seed, {"output.weight": -1})


def make_qwen(path: Path, seed: int = 1, deltas: Tensors | None = None, size: int = HEAD) -> Path:
    """Plain attention, and a head that says of two texts how well they fit together: yes or no.

    ``size`` is that of each head of its attention.
    """
    metadata = _common("qwen3", layers=2)
    metadata += [
        ("qwen3.feed_forward_length", _U32, FEED),
        ("qwen3.attention.head_count", _U32, HEADS),
        ("qwen3.attention.head_count_kv", _U32, KV_HEADS),
        ("qwen3.attention.key_length", _U32, size),
        ("qwen3.attention.value_length", _U32, size),
        ("qwen3.pooling_type", _U32, 4),
        ("qwen3.classifier.output_labels", _ARRAY, (_STRING, ["yes", "no"])),
    ]
    for offset, mark in enumerate(("pre", "suf", "mid", "rep", "sep")):
        metadata.append((f"tokenizer.ggml.fim_{mark}_token_id", _U32, FIRST_MARK + offset))
    head = {"cls.output.weight": _random(np.random.default_rng(seed), 2, WIDTH)}
    return _make(path, metadata, [partial(_qwen_layer, size=size)] * 2, seed, more=head, deltas=deltas)


def make_moe(path: Path, seed: int = 1) -> Path:
    """Plain attention, and of four experts the two that a token chooses."""
    metadata = _common("qwen3moe", layers=2)
    metadata += [
        ("qwen3moe.feed_forward_length", _U32, FEED),
        ("qwen3moe.expert_feed_forward_length", _U32, FEED),
        ("qwen3moe.expert_count", _U32, EXPERTS),
        ("qwen3moe.expert_used_count", _U32, 2),
        ("qwen3moe.attention.head_count", _U32, HEADS),
        ("qwen3moe.attention.head_count_kv", _U32, KV_HEADS),
        ("qwen3moe.attention.key_length", _U32, HEAD),
        ("qwen3moe.attention.value_length", _U32, HEAD),
    ]
    return _make(path, metadata, [_moe_layer] * 2, seed)


FIRST_MARK = 1  # control characters stand for the marks around a gap
RANK_OF_LORA, ALPHA = 2, 3.0
_LORA_SHAPES = {
    "blk.0.attn_q.weight": (HEADS * HEAD, WIDTH), "blk.1.ffn_down.weight": (WIDTH, FEED),
    "output.weight": (len(_TOKENS), WIDTH),
}  # fmt: skip


def lora_halves(seed: int) -> dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """What a LoRA adapter for :func:`make_qwen` adds to a tensor: the product of two small ones."""
    rng = np.random.default_rng(1000 + seed)
    return {
        name: (_random(rng, RANK_OF_LORA, columns), _random(rng, rows, RANK_OF_LORA))
        for name, (rows, columns) in _LORA_SHAPES.items()
    }


def make_lora(path: Path, seed: int = 1, metadata: dict[str, tuple[int, Any]] | None = None) -> Path:
    """An adapter for :func:`make_qwen`; ``metadata`` takes the place of what is usual."""
    entries: dict[str, tuple[int, Any]] = {
        "general.type": (_STRING, "adapter"), "general.architecture": (_STRING, "qwen3"),
        "adapter.type": (_STRING, "lora"), "adapter.lora.alpha": (_F32, ALPHA), **(metadata or {}),
    }  # fmt: skip
    halves: Tensors = {}
    for name, (a, b) in lora_halves(seed).items():
        halves |= {f"{name}.lora_a": a, f"{name}.lora_b": b}
    _write(path, [(key, *entry) for key, entry in entries.items()], halves)
    return path


def make_merged(path: Path, *adapters: tuple[int, float]) -> Path:
    """:func:`make_qwen` with adapters, of which the seed and scale are given, made part of its weights."""
    deltas: Tensors = {}
    for seed, scale in adapters:
        for name, (a, b) in lora_halves(seed).items():
            delta = np.float32(scale * ALPHA / RANK_OF_LORA) * (b @ a)
            deltas[name] = deltas[name] + delta if name in deltas else delta
    return make_qwen(path, deltas=deltas)


def make_t5(path: Path, seed: int = 1) -> Path:
    """An encoder whose output a decoder attends to: no text goes on from its prompt."""
    metadata = _common("t5", layers=1)
    metadata += [
        ("t5.feed_forward_length", _U32, FEED),
        ("t5.attention.head_count", _U32, HEADS),
        ("t5.attention.key_length", _U32, HEAD),
        ("t5.attention.value_length", _U32, HEAD),
        ("t5.attention.relative_buckets_count", _U32, T5_BUCKETS),
        ("t5.decoder_start_token_id", _U32, 0),
    ]
    rng = np.random.default_rng(seed)
    tensors: Tensors = {
        "token_embd.weight": _random(rng, len(_TOKENS), WIDTH),
        "output.weight": _random(rng, len(_TOKENS), WIDTH),
    }
    for part, attentions in (("enc", ("attn",)), ("dec", ("attn", "cross_attn"))):
        tensors[f"{part}.output_norm.weight"] = np.ones(WIDTH, np.float32)
        tensors[f"{part}.blk.0.attn_rel_b.weight"] = _random(rng, T5_BUCKETS, HEADS)
        for name in attentions:
            tensors[f"{part}.blk.0.{name}_norm.weight"] = np.ones(WIDTH, np.float32)
            for letter in "qkvo":
                tensors[f"{part}.blk.0.{name}_{letter}.weight"] = _random(rng, WIDTH, WIDTH)
        tensors |= _feed_forward(f"{part}.blk.0.", rng)
    _write(path, metadata, tensors)
    return path


def make_without_vocabulary(path: Path, seed: int = 1) -> Path:
    """A file that says its vocabulary is somewhere else, as some for speech and pictures do."""
    metadata: Metadata = [pair for pair in _common("mamba", layers=1) if not pair[0].startswith("tokenizer.")]
    metadata += [*_ssm("mamba"), ("tokenizer.ggml.model", _STRING, "no_vocab")]
    metadata += [("mamba.vocab_size", _U32, len(_TOKENS)), ("mamba.feed_forward_length", _U32, 0)]
    metadata += [("mamba.attention.head_count", _U32, 0)]
    return _make(path, metadata, [_mamba_layer], seed)


# ---- metadata


def _common(architecture: str, layers: int) -> Metadata:
    """What every model says of itself; its vocabulary is ASCII, some words, and an end."""
    return [
        ("general.architecture", _STRING, architecture),
        ("general.name", _STRING, f"random {architecture}"),
        (f"{architecture}.context_length", _U32, CONTEXT),
        (f"{architecture}.embedding_length", _U32, WIDTH),
        (f"{architecture}.block_count", _U32, layers),
        (f"{architecture}.attention.layer_norm_rms_epsilon", _F32, 1e-5),
        ("tokenizer.ggml.model", _STRING, "gpt2"),
        ("tokenizer.ggml.pre", _STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", _ARRAY, (_STRING, _TOKENS)),
        ("tokenizer.ggml.token_type", _ARRAY, (_I32, [3] + [1] * (len(_TOKENS) - 1))),
        ("tokenizer.ggml.merges", _ARRAY, (_STRING, ["a b"])),
        ("tokenizer.ggml.bos_token_id", _U32, 0),
        ("tokenizer.ggml.eos_token_id", _U32, 0),
        ("tokenizer.ggml.add_bos_token", _BOOL, True),
    ]


def _ssm(architecture: str) -> Metadata:
    return [
        (f"{architecture}.ssm.conv_kernel", _U32, KERNEL),
        (f"{architecture}.ssm.inner_size", _U32, INNER),
        (f"{architecture}.ssm.state_size", _U32, STATE),
        (f"{architecture}.ssm.time_step_rank", _U32, RANK),
    ]


# ---- layers


def _random(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return (rng.normal(0.0, 1.0, shape) / shape[-1] ** 0.5).astype(np.float32)


def _mamba_layer(block: str, rng: np.random.Generator) -> Tensors:
    return {
        f"{block}attn_norm.weight": np.ones(WIDTH, np.float32),
        f"{block}ssm_in.weight": _random(rng, 2 * INNER, WIDTH),
        f"{block}ssm_conv1d.weight": _random(rng, INNER, KERNEL),
        f"{block}ssm_conv1d.bias": np.zeros(INNER, np.float32),
        f"{block}ssm_x.weight": _random(rng, RANK + 2 * STATE, INNER),
        f"{block}ssm_dt.weight": _random(rng, INNER, RANK),
        f"{block}ssm_dt.bias": np.full(INNER, -1.0, np.float32),
        f"{block}ssm_a": -np.tile(np.arange(1, STATE + 1, dtype=np.float32), (INNER, 1)) / np.float32(8),
        f"{block}ssm_d": np.ones(INNER, np.float32),
        f"{block}ssm_out.weight": _random(rng, WIDTH, INNER),
    }


def _jamba_mamba(block: str, rng: np.random.Generator) -> Tensors:
    norms = {"ssm_dt_norm": RANK, "ssm_b_norm": STATE, "ssm_c_norm": STATE}
    ones = {f"{block}{name}.weight": np.ones(size, np.float32) for name, size in norms.items()}
    return _mamba_layer(block, rng) | ones | _feed_forward(block, rng)


def _jamba_attention(block: str, rng: np.random.Generator) -> Tensors:
    return _attention(block, rng) | _feed_forward(block, rng)


def _gemma_layer(block: str, rng: np.random.Generator) -> Tensors:
    norms = {"post_attention_norm": WIDTH, "post_ffw_norm": WIDTH, "attn_q_norm": HEAD, "attn_k_norm": HEAD}
    ones = {f"{block}{name}.weight": np.ones(size, np.float32) for name, size in norms.items()}
    return _attention(block, rng) | ones | _feed_forward(block, rng)


def _qwen_layer(block: str, rng: np.random.Generator, size: int = HEAD) -> Tensors:
    ones = {f"{block}{name}.weight": np.ones(size, np.float32) for name in ("attn_q_norm", "attn_k_norm")}
    return _attention(block, rng, size) | ones | _feed_forward(block, rng)


def _moe_layer(block: str, rng: np.random.Generator) -> Tensors:
    layer = {
        name: value for name, value in _qwen_layer(block, rng).items() if "ffn_norm" in name or "attn" in name
    }
    return layer | {
        f"{block}ffn_gate_inp.weight": _random(rng, EXPERTS, WIDTH),
        f"{block}ffn_gate_exps.weight": _random(rng, EXPERTS, FEED, WIDTH),
        f"{block}ffn_up_exps.weight": _random(rng, EXPERTS, FEED, WIDTH),
        f"{block}ffn_down_exps.weight": _random(rng, EXPERTS, WIDTH, FEED),
    }


def _attention(block: str, rng: np.random.Generator, size: int = HEAD) -> Tensors:
    return {
        f"{block}attn_norm.weight": np.ones(WIDTH, np.float32),
        f"{block}attn_q.weight": _random(rng, HEADS * size, WIDTH) * 2,  # so that it is no mere average
        f"{block}attn_k.weight": _random(rng, KV_HEADS * size, WIDTH) * 2,
        f"{block}attn_v.weight": _random(rng, KV_HEADS * size, WIDTH),
        f"{block}attn_output.weight": _random(rng, WIDTH, HEADS * size),
    }


def _feed_forward(block: str, rng: np.random.Generator) -> Tensors:
    return {
        f"{block}ffn_norm.weight": np.ones(WIDTH, np.float32),
        f"{block}ffn_gate.weight": _random(rng, FEED, WIDTH),
        f"{block}ffn_up.weight": _random(rng, FEED, WIDTH),
        f"{block}ffn_down.weight": _random(rng, WIDTH, FEED),
    }


# ---- the container


def _make(
    path: Path, metadata: Metadata, layers: list[Layer], seed: int, damaged: dict[str, int] | None = None,
    more: Tensors | None = None, deltas: Tensors | None = None,
) -> Path:  # fmt: skip
    rng = np.random.default_rng(seed)
    tensors: Tensors = {
        "token_embd.weight": _random(rng, len(_TOKENS), WIDTH) * 4,
        "output_norm.weight": np.ones(WIDTH, np.float32),
        "output.weight": _random(rng, len(_TOKENS), WIDTH) * 4,
    }
    for index, layer in enumerate(layers):
        tensors |= layer(f"blk.{index}.", rng)
    tensors |= more or {}
    for name, delta in (deltas or {}).items():
        tensors[name] += delta
    for name, row in (damaged or {}).items():
        tensors[name][row] = np.nan
    _write(path, metadata, tensors)
    return path


def _write(path: Path, metadata: Metadata, tensors: Tensors) -> None:
    out = bytearray(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)))
    for key, kind, value in metadata:
        out += _string(key) + struct.pack("<I", kind) + _value(kind, value)
    data = bytearray()
    for name, tensor in tensors.items():
        shape = tensor.shape[::-1]  # fastest dimension first
        out += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += tensor.tobytes()
        data += b"\0" * (-len(data) % _ALIGNMENT)
    out += b"\0" * (-len(out) % _ALIGNMENT)
    path.write_bytes(bytes(out + data))


def _value(kind: int, value: Any) -> bytes:
    if kind == _STRING:
        return _string(value)
    if kind == _ARRAY:
        inner, items = value
        return struct.pack("<IQ", inner, len(items)) + b"".join(_value(inner, item) for item in items)
    return struct.pack({_U32: "<I", _I32: "<i", _F32: "<f", _BOOL: "<?"}[kind], value)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
