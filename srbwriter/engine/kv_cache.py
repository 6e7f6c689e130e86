"""Checks of the KV cache's type and size: by the size of a model's heads, and by the memory of the machine.

Reads the header of the model's file. llama.cpp does not check these in all cases: it ends the process while
it makes the context, computes NaN, or takes memory until the system ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from srbwriter.gguf import Array, Damaged, Scalar, pairs

from .types import EngineOptions, ModelError

WHOLE_TYPES = frozenset({"f32", "f16", "bf16"})
"""Types of a cache that keep each number by itself."""
BLOCK = 32
"""Numbers that each other type keeps together (``QK8_0``, ``QK4_0``, ``QK4_NL`` … in ggml-common.h)."""
_MOST_LAYERS = 1 << 10
_BLOCK_BYTES = {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q8_0": 34, "iq4_nl": 18}
_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, **{kind: size / BLOCK for kind, size in _BLOCK_BYTES.items()}}
"""Bytes of one number."""
_STATES = ("ssm.", "wkv.", "full_attention_interval")
"""Keys of models some layers of which keep a state instead of keys and values, and do not say which."""
_GOOD_SHARE = 0.75  # of the memory, for the context that an error message proposes

_Value: TypeAlias = "Scalar | list[int]"


def check_cache(path: Path, options: EngineOptions, memory: int) -> None:
    """Raise ModelError for a KV cache that a model cannot have, or that is larger than this machine's memory.

    The blocks of a type have to divide a head of the model. ``memory`` is the machine's total in bytes, used
    or free. A file whose header cannot be read is left to llama.cpp.
    """
    asked = {"k": options.cache_type_k, "v": options.cache_type_v}
    quantised = {which: kind for which, kind in asked.items() if kind not in WHOLE_TYPES}
    if not quantised and options.n_ctx is None:
        return
    try:
        values = _attention_values(path)
    except (OSError, Damaged):
        return
    for which, kind in quantised.items():
        for size in sorted(_head_sizes(values, "key" if which == "k" else "value")):
            if size % BLOCK:
                raise ModelError(
                    str(path),
                    f"cache_type_{which} {kind} keeps {BLOCK} numbers together, and a head of this model has "
                    f"{size}, which {BLOCK} does not divide",
                    f"give --cache-type-{which} f16",
                )
    token = _token_bytes(values, options)
    needed = token * (options.n_ctx or 0)
    if needed > memory:
        most = int(memory * _GOOD_SHARE / token) // 1024 * 1024
        raise ModelError(
            str(path),
            f"a context of {options.n_ctx} tokens takes {needed / 1e9:.1f} GB with this model, and this "
            f"machine has {memory / 1e9:.1f} GB of memory",
            f"give --ctx-size {most} or less" if most else "choose a smaller model",
        )


def _token_bytes(values: Mapping[str, _Value], options: EngineOptions) -> float:
    """Return the bytes of the keys and values of one token, or fewer; 0 where the header does not say."""
    if any(name.startswith(_STATES) for name in values):
        return 0.0
    layers, shared = (_numbers(values.get(key)) for key in ("block_count", "attention.shared_kv_layers"))
    holders = _numbers(values.get("attention.head_count_kv", values.get("attention.head_count", 0)))
    heads = sum(holders) if len(holders) > 1 else (sum(layers) - sum(shared)) * sum(holders)
    key, value = (min(_head_sizes(values, which), default=0) for which in ("key", "value"))
    if "attention.key_length_mla" in values:  # values are made from the keys
        value = 0
    return max(heads, 0) * (key * _BYTES[options.cache_type_k] + value * _BYTES[options.cache_type_v])


def _attention_values(path: Path) -> Mapping[str, _Value]:
    """Return what the header says of layers and attention, by keys without the architecture."""
    found: dict[str, _Value] = {}
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        for key, value in pairs(file, size):
            _, _, name = key.partition(".")
            if not name.startswith(("embedding_length", "block_count", "attention.", *_STATES)):
                continue
            if not isinstance(value, Array):
                found[name] = value
            elif not value.holds_texts and value.length <= _MOST_LAYERS:
                found[name] = [int(number) for number in value.numbers()]
    return found


def _head_sizes(values: Mapping[str, _Value], which: str) -> set[int]:
    """Return the sizes of the heads of keys or values, of all layers that have heads.

    As ``llama_model::load_hparams`` has it: what the header says, else the embedding shared out among the
    heads. Layers with a sliding window may have a size of their own.
    """
    named = [f"attention.{which}_length", f"attention.{which}_length_swa"]
    sizes = {size for name in named for size in _numbers(values.get(name)) if size > 0}
    if named[0] not in values:
        heads = _numbers(values.get("attention.head_count"))
        sizes |= {
            width // count
            for width in _numbers(values.get("embedding_length"))
            for count in heads
            if count > 0
        }
    return sizes


def _numbers(value: _Value | None) -> list[int]:
    if isinstance(value, list):
        return value
    return [value] if type(value) is int else []
