"""A model file: what its name says, what its header says, and what can be wrong with it.

A header is read until what a list needs is known. That is before the vocabulary in the order in which
converters write; walking through the tokens would take longer than everything else together (the ``gguf``
package, which always does, needs a second for a vocabulary of 128 000).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO, TypeAlias

from srbwriter.gguf import Array, Damaged, Scalar, pairs

SUFFIX = ".gguf"


# ---- errors: every message names the thing and the cure


class ModelsError(Exception):
    """Base of everything this room raises on purpose; ``str()`` is fit for a person."""


class BadModelFile(ModelsError):
    """A file is no model that can be used."""

    def __init__(self, path: Path, problem: str, cure: str = "") -> None:
        self.path, self.problem, self.cure = path, problem, cure
        super().__init__(f"{path}: {problem}" + (f" — {cure}" if cure else ""))


class NoSuchModel(ModelsError):
    """No model, or more than one, goes by a name."""


class DownloadError(ModelsError):
    """A download failed. The part that arrived is kept if the download can be resumed."""


class Offline(DownloadError):
    """The hub does not answer: there is no network, or none to it."""


class MirrorUnreachable(DownloadError):
    """The hub that ``HF_ENDPOINT`` names does not answer, or is no hub."""


class GatedRepository(DownloadError):
    """The terms of a repository have to be accepted first. ``page`` is where."""

    def __init__(self, page: str, message: str) -> None:
        self.page = page
        super().__init__(message)


class MissingRepository(NoSuchModel):
    """The hub has no such repository, or hides it without a token."""


class MissingFile(NoSuchModel):
    """A repository has no such file or quantisation."""


class NoSpace(DownloadError):
    """The disk has no room for the rest. ``missing`` and ``free`` are bytes."""

    def __init__(self, missing: int, free: int, message: str) -> None:
        self.missing, self.free = missing, free
        super().__init__(message)


class DamagedDownload(DownloadError):
    """What arrived has not the announced size or checksum, or is no model; it has been deleted."""


class Interrupted(DownloadError):
    """The connection broke, or the hub was busy, too often. What has arrived is kept."""


class Cancelled(DownloadError):
    """Someone cancelled the download. What has arrived is kept."""


# ---- names: quantisations, and files that were split into several

_SPLIT = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
"""As llama.cpp's ``llama_split_path`` names them."""

_QUANTISATION = re.compile(
    r"(?:^|[^a-z0-9])((?:ud-)?(?:i?q\d(?:_[a-z0-9]+)*|tq\d_\d|mxfp4(?:_moe)?|nvfp4|bf16|f16|f32|fp16|fp32))"
    r"(?=$|[^a-z0-9_])",
    re.IGNORECASE,
)
"""The types that ``llama-quantize`` and the converters write into file names, and Unsloth's ``UD-``."""

_NO_WRITER = re.compile(r"(?:^|[-_.])(?:mmproj|imatrix)(?:[-_.]|$)", re.IGNORECASE)
"""Files beside a model that write nothing: projectors of images, and measurements for quantising."""


@dataclass(frozen=True, slots=True)
class Parts:
    """One file, or part ``number`` of ``count``; ``stem`` is the name without that."""

    stem: str
    number: int = 1
    count: int = 1


def parts_of(name: str) -> Parts:
    """What a file name says about parts."""
    if found := _SPLIT.match(name):
        return Parts(found["stem"], int(found["number"]), int(found["count"]))
    return Parts(name[: -len(SUFFIX)] if name.lower().endswith(SUFFIX) else name)


def part_names(name: str) -> list[str]:
    """All file names of the model that ``name`` is a part of, in order."""
    found = _SPLIT.match(name)
    if not found:
        return [name]
    count = int(found["count"])
    return [f"{found['stem']}-{number:05d}-of-{found['count']}{name[-5:]}" for number in range(1, count + 1)]


def quantisation(name: str) -> str:
    """The quantisation a file name speaks of, in capitals; empty if it speaks of none."""
    found = _QUANTISATION.findall(parts_of(PurePath(name).name).stem)
    return found[-1].upper() if found else ""


_FILE_TYPE = re.compile(r"\b(F32|B?F16|I?Q\d\w*|TQ\d_\d|MXFP4|NVFP4)(?: - ([SML])(?:mall|edium|arge))?\b")
"""As llama.cpp writes it out (``llama_ftype_name``): ``Q4_K - Medium``."""


def file_quantisation(description: str) -> str:
    """The quantisation in llama.cpp's description of a model, spelt as file names spell it; or empty."""
    found = _FILE_TYPE.search(description)
    return "_".join(filter(None, found.groups())) if found else ""


def is_model(name: str) -> bool:
    """Whether a file of this name may be a model that writes text."""
    return name.lower().endswith(SUFFIX) and not _NO_WRITER.search(PurePath(name).name)


def hub_folder(folder: Path, repo: str) -> Path:
    """Where models of a repository of the hub are kept: ``OWNER/REPO``, as LM Studio keeps its own."""
    return folder.joinpath(*repo.split("/"))


def put_in_place(finished: Path, target: Path) -> None:
    """Make ``finished`` be ``target``. Raises FileExistsError if that is taken, or OSError."""
    try:
        os.link(finished, target)  # unlike a rename it fails rather than overwrite
    except FileExistsError:
        raise
    except OSError:  # a disk without links, such as exFAT
        if target.exists():
            raise FileExistsError(target) from None
        finished.rename(target)


# ---- headers

Value: TypeAlias = "Scalar | list[int | float | bool]"

_SHORT_ARRAY = 1 << 12
"""Arrays up to this long are kept: one value for each layer. Longer ones are vocabularies."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a model says of itself; 0 and empty where it does not.

    ``context`` is the length it was trained for, in tokens. ``kv_widths`` are, for each layer, how many
    numbers the keys and the values of one token take. ``dense_layers`` are those at the beginning of a model
    of experts that have none. ``kind`` is ``model`` unless the file is a part of one, such as an adapter.
    """

    architecture: str
    name: str = ""
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
    """Read the header of the file at ``path``. Raises BadModelFile for any other content."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            return parse_header(file, size, path)
    except OSError as error:
        raise BadModelFile(path, f"cannot be read ({error.strerror or error})") from error


def parse_header(file: BinaryIO, size: int, path: Path) -> Header:
    """Read a header from the first ``size`` bytes of ``file``. Raises BadModelFile."""
    try:
        return _header(_values(file, size))
    except Damaged as error:
        raise BadModelFile(path, error.problem, error.cure) from None


def _values(file: BinaryIO, size: int) -> dict[str, Value]:
    """The values of the header, up to the vocabulary once the shape of the model is known."""
    values: dict[str, Value] = {}
    for key, value in pairs(file, size):
        if not isinstance(value, Array):
            values[key] = value
            continue
        if key == "tokenizer.ggml.tokens":
            values["tokens"] = value.length
            if f"{values.get('general.architecture')}.block_count" in values:
                break
        if not value.holds_texts and value.length <= _SHORT_ARRAY:
            values[key] = value.numbers()
    return values


def _header(values: Mapping[str, Value]) -> Header:
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str):
        raise Damaged("its header does not say what kind of model it is")

    def number(key: str) -> int:
        found = values.get(f"{architecture}.{key}", 0)
        return found if isinstance(found, int) and 0 <= found < 1 << 40 else 0

    layers = number("block_count")
    if layers > _SHORT_ARRAY:
        raise Damaged(f"its header claims {layers} layers")
    tokens = values.get("tokens", 0)
    name, kind = values.get("general.name", ""), values.get("general.type", "model")
    return Header(
        architecture=architecture,
        name=name if isinstance(name, str) else "",
        kind=kind if isinstance(kind, str) else "model",
        context=number("context_length"),
        layers=layers,
        width=number("embedding_length"),
        hidden=number("feed_forward_length"),
        heads=max((head or 0 for head in _heads(values, architecture, layers)), default=0),
        vocabulary=number("vocab_size") or (tokens if isinstance(tokens, int) else 0),
        kv_widths=_kv_widths(values, architecture, layers, number("embedding_length")),
        dense_layers=number("leading_dense_block_count"),
    )


def _kv_widths(
    values: Mapping[str, Value], architecture: str, layers: int, width: int
) -> tuple[tuple[int, int], ...]:
    """Numbers in the keys and values of one token, layer by layer.

    As ``llama_hparams::n_embd_k_gqa`` has it: heads that hold keys × the length of one. A layer without
    such heads keeps a state instead.
    """
    attention = f"{architecture}.attention"
    heads = _heads(values, architecture, layers)
    holders = _each(values.get(f"{attention}.head_count_kv"), layers, None)
    long_key, long_value = values.get(f"{attention}.key_length"), values.get(f"{attention}.value_length")
    found: list[tuple[int, int]] = []
    for head, holder in zip(heads, holders, strict=True):
        usual = width // head if head else 0
        count = (head or 0) if holder is None else holder
        key = long_key if isinstance(long_key, int) else usual
        value = long_value if isinstance(long_value, int) else usual
        found.append((count * key, count * value))
    return tuple(found)


def _heads(values: Mapping[str, Value], architecture: str, layers: int) -> list[int | None]:
    return _each(values.get(f"{architecture}.attention.head_count"), layers, 0)


def _each(value: Value | None, layers: int, missing: int | None) -> list[int | None]:
    """One number for each layer, from one for all or from a list."""
    if isinstance(value, list):
        known: list[int | None] = [x for x in value if isinstance(x, int) and 0 <= x < 1 << 20]
        return (known + [missing] * layers)[:layers]
    return [value if isinstance(value, int) and 0 <= value < 1 << 20 else missing] * layers
