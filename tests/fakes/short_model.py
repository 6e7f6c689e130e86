"""A model that is the bundled one in all but its length: tests that are not about English have it sooner."""

from __future__ import annotations

import struct
import tempfile
from functools import cache
from itertools import pairwise
from pathlib import Path

from srbwriter.demo import bundled_model
from srbwriter.gguf import contents, pairs

LAYERS = 2
_HEAD = struct.Struct("<4sIQQ")
_U32 = 4  # of enum gguf_type
_ALIGNMENT = 32


@cache
def short_model() -> Path:
    """The first layers of the bundled model, with its vocabulary and its form, and a third of its work."""
    path = Path(tempfile.mkdtemp()) / "short.gguf"
    data = bundled_model().read_bytes()
    count, (_, tensors) = len(list(pairs(bundled_model()))), contents(bundled_model())
    first = tensors[0].name.encode()
    metadata = bytearray(data[_HEAD.size : data.index(struct.pack("<Q", len(first)) + first)])
    said = b"llama.block_count" + struct.pack("<I", _U32)
    at = metadata.index(said) + len(said)
    metadata[at : at + 4] = struct.pack("<I", LAYERS)
    ends = dict(pairwise([*sorted(tensor.offset for tensor in tensors), len(data)]))
    kept = [tensor for tensor in tensors if _layer(tensor.name) < LAYERS]
    weights = bytearray()
    for name, shape, kind, offset in kept:
        metadata += struct.pack("<Q", len(name)) + name.encode()
        metadata += struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(weights))
        weights += data[offset : ends[offset]]
        weights += b"\0" * (-len(weights) % _ALIGNMENT)
    metadata += b"\0" * (-(_HEAD.size + len(metadata)) % _ALIGNMENT)
    path.write_bytes(_HEAD.pack(b"GGUF", 3, len(kept), count) + metadata + weights)
    return path


def _layer(tensor: str) -> int:
    """The number of the layer that a tensor is of; 0 for one that is of none."""
    first, number, *_ = tensor.split(".")
    return int(number) if first == "blk" else 0
