"""Models of real shapes with random weights: ``python -m benchmarks.models [SHAPE…] [--models DIR]``.

Speed depends on shapes and number formats, not on what was learnt, so a random model measures as well
as a trained one; it is made in seconds, and needs no download and no licence. Its words are noise.
"""

from __future__ import annotations

import argparse
import itertools
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from srbwriter.paths import cache_dir

SPACE = "Ġ"  # how byte-level BPE writes a space
END = "<|end|>"
BLOCK = 32  # weights that share a scale, in Q8_0 and Q4_0 alike
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a llama-architecture model."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    ff: int
    vocab: int
    context: int = 16384
    tied: bool = True  # the output matrix is the embedding
    rope_base: float = 10000.0


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("tiny", layers=2, width=64, heads=4, kv_heads=2, ff=128, vocab=512, context=2048),
        Shape("wide", layers=4, width=512, heads=8, kv_heads=2, ff=1024, vocab=131072),
        Shape("narrow32k", layers=1, width=32, heads=1, kv_heads=1, ff=64, vocab=32000),
        Shape("narrow128k", layers=1, width=32, heads=1, kv_heads=1, ff=64, vocab=128256),
        Shape("135m", layers=30, width=576, heads=9, kv_heads=3, ff=1536, vocab=49152),
        Shape("1.1b", layers=22, width=2048, heads=32, kv_heads=4, ff=5632, vocab=32000, tied=False),
    )
}
KINDS = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}
_SPREAD = {"q8_0": 73.9, "q4_0": 4.61}  # standard deviation of uniform codes, before the scale
_FILE_TYPE = {"q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}


def models_dir() -> Path:
    """The default folder of made models; it can be deleted at any time."""
    return cache_dir() / "benchmark-models"


def model_file(name: str, folder: Path | None = None) -> Path:
    """The file of ``SHAPE`` or ``SHAPE-KIND`` (``135m``, ``1.1b-q4_0``), made if it is not there.

    Raises ValueError for a name that is no shape or kind.
    """
    shape_name, _, kind = name.partition("-")
    kind = kind or "q8_0"
    if shape_name not in SHAPES or kind not in KINDS:
        raise ValueError(f"{name}: a shape is one of {', '.join(SHAPES)}, followed by -q8_0 or -q4_0")
    path = (folder or models_dir()) / f"random-{shape_name}-{kind}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        make(SHAPES[shape_name], kind, part)
        part.replace(path)
    return path


def make(shape: Shape, kind: str, path: Path, seed: int = 1) -> None:
    """Write a model of ``shape`` to ``path``; the same seed gives the same file."""
    writer = gguf.GGUFWriter(str(path), "llama", use_temp_file=True)
    writer.add_name(f"random {shape.name} {kind}")
    writer.add_file_type(_FILE_TYPE[kind])
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ff)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocab)
    tokens, merges = vocabulary(shape.vocab)
    kinds = [gguf.TokenType.CONTROL if token == END else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index(END))
    writer.add_eos_token_id(tokens.index(END))
    writer.add_add_bos_token(False)
    rng = np.random.default_rng(seed)
    for name, rows, columns in _matrices(shape):
        writer.add_tensor(name, _weights(rng, rows, columns, kind), raw_dtype=KINDS[kind])
    for name in _norms(shape):
        writer.add_tensor(name, np.ones(shape.width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _matrices(shape: Shape) -> Iterator[tuple[str, int, int]]:
    """Every weight matrix: name, rows (outputs), columns (inputs)."""
    kv_width = shape.width // shape.heads * shape.kv_heads
    yield "token_embd.weight", shape.vocab, shape.width
    if not shape.tied:
        yield "output.weight", shape.vocab, shape.width
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        yield f"{block}attn_q.weight", shape.width, shape.width
        yield f"{block}attn_k.weight", kv_width, shape.width
        yield f"{block}attn_v.weight", kv_width, shape.width
        yield f"{block}attn_output.weight", shape.width, shape.width
        yield f"{block}ffn_gate.weight", shape.ff, shape.width
        yield f"{block}ffn_up.weight", shape.ff, shape.width
        yield f"{block}ffn_down.weight", shape.width, shape.ff


def _norms(shape: Shape) -> Iterator[str]:
    yield "output_norm.weight"
    for layer in range(shape.layers):
        yield f"blk.{layer}.attn_norm.weight"
        yield f"blk.{layer}.ffn_norm.weight"


def _weights(rng: np.random.Generator, rows: int, columns: int, kind: str) -> NDArray[np.uint8]:
    """Random codes under one scale, in the bytes of the format: per block a float16, then the codes.

    The spread is one over the square root of the inputs, as trained weights have it, so that
    activations keep their size through the layers.
    """
    codes = BLOCK if kind == "q8_0" else BLOCK // 2
    scale = np.array([1.0 / (columns**0.5 * _SPREAD[kind])], np.float16).view(np.uint8)
    data = np.empty((rows, columns // BLOCK, 2 + codes), np.uint8)
    for start in range(0, rows, _ROWS_AT_ONCE):
        part = data[start : start + _ROWS_AT_ONCE]
        part[...] = rng.integers(0, 256, part.shape, np.uint8)
    data[..., :2] = scale
    if kind == "q8_0":
        data[..., 2:][data[..., 2:] == 0x80] = 0x81  # -128 does not occur in Q8_0
    return data.reshape(rows, -1)


def vocabulary(size: int) -> tuple[list[str], list[str]]:
    """A byte-level BPE: the end token, all bytes, then words of growing length that letters merge into."""
    tokens = [END, *_byte_names()]
    merges: list[str] = []
    level = [SPACE, *string.ascii_lowercase]
    while len(tokens) < size:
        longer: list[str] = []
        for left, right in itertools.product(level, string.ascii_lowercase):
            if len(tokens) == size:
                break
            tokens.append(left + right)
            merges.append(f"{left} {right}")
            longer.append(left + right)
        level = longer
    return tokens, merges


def _byte_names() -> list[str]:
    """Return the printable substitutes of the 256 bytes, as GPT-2 defines them."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = itertools.count(256)
    return [chr(byte if byte in plain else next(spare)) for byte in range(256)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__.split("\n")[0])
    parser.add_argument("shape", nargs="*", default=["135m", "1.1b"], help="such as 135m or 1.1b-q4_0")
    parser.add_argument("--models", type=Path, help=f"folder of the files (default {models_dir()})")
    args = parser.parse_args()
    for name in args.shape:
        path = model_file(name, args.models)
        print(f"{path}  {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
