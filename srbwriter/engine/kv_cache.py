"""Checks of the KV cache's type and size: by the size of a model's heads, and by the memory of the machine.

Reads the header of the model's file. llama.cpp does not check these in all cases: it ends the process while
it makes the context, computes NaN, or takes memory until the system ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from srbwriter.gguf import Scalar

from .model_files import read_contents
from .types import EngineOptions, ModelError

WHOLE_TYPES = frozenset({"f32", "f16", "bf16"})
"""Types of a cache that keep each number by itself."""
BLOCK = 32
"""Numbers that each other type keeps together (``QK8_0``, ``QK4_0``, ``QK4_NL`` … in ggml-common.h)."""
_BLOCK_BYTES = {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q8_0": 34, "iq4_nl": 18}
_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, **{kind: size / BLOCK for kind, size in _BLOCK_BYTES.items()}}
"""Bytes of one number."""
_OTHER_SIZES = ("ssm.", "wkv.", "full_attention_interval", "attention.shared_kv", "attention.key_length_mla")
"""Keys of models of which a token does not take a key and a value of each head and layer."""
_GOOD_SHARE = 0.75  # of the memory, for the context that an error message proposes


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
        header, _ = read_contents(path, "the model")
    except ModelError:
        return
    values = {key.partition(".")[2]: value for key, value in header.items()}  # without the architecture
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


def _token_bytes(values: Mapping[str, Scalar], options: EngineOptions) -> float:
    """Return the bytes of the keys and values of one token, or fewer; 0 where the header does not say."""
    if any(name.startswith(_OTHER_SIZES) for name in values):
        return 0.0
    heads = _number(values, "attention.head_count_kv") or _number(values, "attention.head_count")
    key, value = (min(_head_sizes(values, which), default=0) for which in ("key", "value"))
    of_head = key * _BYTES[options.cache_type_k] + value * _BYTES[options.cache_type_v]
    return _number(values, "block_count") * heads * of_head


def _head_sizes(values: Mapping[str, Scalar], which: str) -> set[int]:
    """Return the sizes of the heads of keys or values.

    As ``llama_model::load_hparams`` has it: what the header says, else the embedding shared out among the
    heads. Layers with a sliding window may have a size of their own.
    """
    sizes = {_number(values, f"attention.{which}_length{kind}") for kind in ("", "_swa")} - {0}
    heads = _number(values, "attention.head_count")
    if not _number(values, f"attention.{which}_length") and heads:
        sizes.add(_number(values, "embedding_length") // heads)
    return sizes - {0}


def _number(values: Mapping[str, Scalar], key: str) -> int:
    value = values.get(key, 0)
    return value if type(value) is int else 0
