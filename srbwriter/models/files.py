"""A model file: what its name says, what its header says, and what can be wrong with it.

A header is read until what a list needs is known. That is before the vocabulary in the order in which
converters write; walking through the tokens would take longer than everything else together (the ``gguf``
package, which always does, needs a second for a vocabulary of 128 000).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from srbwriter.gguf import Damaged, Texts, Value, pairs


class ModelsError(Exception):
    """A model cannot be found, used or brought; ``str()`` names it and the cure.

    ``problem`` is the same without the name and the cure, where a list shows both.
    """

    def __init__(self, message: str, problem: str = "") -> None:
        self.problem = problem or message
        super().__init__(message)


class DownloadError(ModelsError):
    """A download failed. The part that arrived is kept if the download can be resumed."""


class DownloadCancelled(DownloadError):
    """Someone cancelled the download. What has arrived is kept."""


def unusable(path: Path, problem: str, cure: str = "") -> ModelsError:
    """Return the error for a file that is no model that can be used."""
    return ModelsError(f"{path}: {problem}" + (f" — {cure}" if cure else ""), problem)


# ---- names: quantisations, and files that were split into several

_SPLIT = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
"""As llama.cpp's ``llama_split_path`` names them."""

_NO_WRITER = re.compile(r"(?:^|[-_.])(?:mmproj|imatrix)(?:[-_.]|$)", re.IGNORECASE)
"""Files beside a model that write nothing: projectors of images, and measurements for quantising."""


def part_of(name: str) -> tuple[str, int]:
    """Return a file's name without its suffix, and which part of a model it is; 1 for a whole one."""
    if found := _SPLIT.match(name):
        return found["stem"], int(found["number"])
    return re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE), 1


def part_names(name: str) -> list[str]:
    """Return all file names of the model that ``name`` is a part of, in order."""
    found = _SPLIT.match(name)
    if not found:
        return [name]
    count = int(found["count"])
    return [f"{found['stem']}-{number:05d}-of-{found['count']}{name[-5:]}" for number in range(1, count + 1)]


def is_model(name: str) -> bool:
    """Whether a file of this name may be a model that writes text."""
    return name.lower().endswith(".gguf") and not _NO_WRITER.search(PurePath(name).name)


# ---- headers

_MOST_LAYERS = 1 << 12


@dataclass(frozen=True, slots=True)
class Header:
    """What a model says of itself; 0 and empty where it does not.

    ``context`` is the length it was trained for, in tokens. ``kv_widths`` are, for each layer, how many
    numbers the keys and the values of one token take. ``dense_layers`` are those at the beginning of a model
    of experts that have none. ``kind`` is ``model`` unless the file is a part of one, such as an adapter.
    """

    architecture: str
    kind: str = "model"
    context: int = 0
    layers: int = 0
    width: int = 0
    hidden: int = 0
    heads: int = 0
    vocabulary: int = 0
    kv_widths: tuple[tuple[int, int], ...] = ()
    dense_layers: int = 0


def read_header(path: Path) -> Header:
    """Read the header of the file at ``path``, up to the vocabulary once the shape of the model is known.

    Raises ModelsError for any other content.
    """
    values: dict[str, Value] = {}
    try:
        for key, value in pairs(path):
            if not isinstance(value, Texts):
                values[key] = value
            elif key == "tokenizer.ggml.tokens":
                values["tokens"] = len(value)
                if f"{values.get('general.architecture')}.block_count" in values:
                    break
        return _header(values)
    except OSError as error:
        raise unusable(path, f"cannot be read ({error.strerror or error})") from error
    except Damaged as error:
        raise unusable(path, error.problem, error.cure) from None


def _header(values: dict[str, Value]) -> Header:
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str):
        raise Damaged("its header does not say what kind of model it is")

    def number(key: str) -> int:
        found = values.get(f"{architecture}.{key}", 0)
        return found if isinstance(found, int) and 0 <= found < 1 << 40 else 0

    layers = number("block_count")
    if layers > _MOST_LAYERS:
        raise Damaged(f"its header claims {layers} layers")

    def each_layer(key: str) -> list[int | None]:
        """One number for each layer, from one for all or from a list."""
        value = values.get(f"{architecture}.attention.{key}")
        listed = value if isinstance(value, list) else [value] * layers
        found = [x if isinstance(x, int) and 0 <= x < 1 << 20 else None for x in listed]
        return (found + [None] * layers)[:layers]

    # As llama_hparams::n_embd_k_gqa has it: heads that hold keys × the length of one. A layer without such
    # heads keeps a state instead.
    heads = [head or 0 for head in each_layer("head_count")]
    widths: list[tuple[int, int]] = []
    for head, holder in zip(heads, each_layer("head_count_kv"), strict=True):
        usual, count = number("embedding_length") // head if head else 0, head if holder is None else holder
        key, value = (number(f"attention.{which}_length") or usual for which in ("key", "value"))
        widths.append((count * key, count * value))
    tokens = values.get("tokens", 0)
    kind = values.get("general.type", "model")
    return Header(
        architecture=architecture,
        kind=kind if isinstance(kind, str) else "model",
        context=number("context_length"),
        layers=layers,
        width=number("embedding_length"),
        hidden=number("feed_forward_length"),
        heads=max(heads, default=0),
        vocabulary=number("vocab_size") or (tokens if isinstance(tokens, int) else 0),
        kv_widths=tuple(widths),
        dense_layers=number("leading_dense_block_count"),
    )
