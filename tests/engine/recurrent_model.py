"""Makes a tiny Mamba model of random weights: its memory is one state a sequence, which cannot be cut.

The container is GGUF version 3, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH, INNER, STATE, KERNEL, RANK, LAYERS = 32, 64, 8, 4, 4, 2
_ALIGNMENT = 32
_U32, _F32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9  # enum gguf_type
_I32 = 5


def make_mamba(path: Path, seed: int = 1) -> Path:
    """Write the model; the same seed gives the same file."""
    letters = [chr(b + 256 * (b < 33 or 127 <= b < 161 or b == 173)) for b in range(256)]
    tokens = ["<end>", *letters]
    metadata: list[tuple[str, int, Any]] = [
        ("general.architecture", _STRING, "mamba"),
        ("general.name", _STRING, "random mamba"),
        ("mamba.context_length", _U32, 1024),
        ("mamba.embedding_length", _U32, WIDTH),
        ("mamba.feed_forward_length", _U32, 0),
        ("mamba.attention.head_count", _U32, 0),
        ("mamba.block_count", _U32, LAYERS),
        ("mamba.ssm.conv_kernel", _U32, KERNEL),
        ("mamba.ssm.inner_size", _U32, INNER),
        ("mamba.ssm.state_size", _U32, STATE),
        ("mamba.ssm.time_step_rank", _U32, RANK),
        ("mamba.attention.layer_norm_rms_epsilon", _F32, 1e-5),
        ("tokenizer.ggml.model", _STRING, "gpt2"),
        ("tokenizer.ggml.pre", _STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", _ARRAY, (_STRING, tokens)),
        ("tokenizer.ggml.token_type", _ARRAY, (_I32, [3] + [1] * 256)),
        ("tokenizer.ggml.merges", _ARRAY, (_STRING, ["a b"])),
        ("tokenizer.ggml.bos_token_id", _U32, 0),
        ("tokenizer.ggml.eos_token_id", _U32, 0),
        ("tokenizer.ggml.add_bos_token", _BOOL, True),
    ]
    _write(path, metadata, _tensors(len(tokens), np.random.default_rng(seed)))
    return path


def _tensors(n_vocab: int, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    def random(*shape: int) -> NDArray[np.float32]:
        return (rng.normal(0.0, 1.0, shape) / shape[-1] ** 0.5).astype(np.float32)

    tensors = {
        "token_embd.weight": random(n_vocab, WIDTH) * 4,
        "output_norm.weight": np.ones(WIDTH, np.float32),
        "output.weight": random(n_vocab, WIDTH) * 4,
    }
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        tensors |= {
            f"{block}attn_norm.weight": np.ones(WIDTH, np.float32),
            f"{block}ssm_in.weight": random(2 * INNER, WIDTH),
            f"{block}ssm_conv1d.weight": random(INNER, KERNEL),
            f"{block}ssm_conv1d.bias": np.zeros(INNER, np.float32),
            f"{block}ssm_x.weight": random(RANK + 2 * STATE, INNER),
            f"{block}ssm_dt.weight": random(INNER, RANK),
            f"{block}ssm_dt.bias": np.full(INNER, -1.0, np.float32),
            f"{block}ssm_a": -np.tile(np.arange(1, STATE + 1, dtype=np.float32), (INNER, 1)) / 8,
            f"{block}ssm_d": np.ones(INNER, np.float32),
            f"{block}ssm_out.weight": random(WIDTH, INNER),
        }
    return tensors


def _write(path: Path, metadata: list[tuple[str, int, Any]], tensors: dict[str, NDArray[np.float32]]) -> None:
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
