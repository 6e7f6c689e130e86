"""The header of a GGUF file: what a model says of itself, read without loading it.

Reads until what a list needs is known. That is before the vocabulary in the order in which converters write;
walking through the tokens would take longer than everything else together (the ``gguf`` package, which
always does, needs a second for a vocabulary of 128 000). Any bytes may come: lengths are checked against the
file before they are believed. The format is that of ``ggml/docs/gguf.md``, versions 2 and 3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from srbwriter.models.errors import BadModelFile

Value: TypeAlias = "int | float | bool | str | list[int | float | bool]"

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""enum gguf_type → code of ``struct``."""

_MOST_KEYS = 1 << 16
_LONG_TEXT = 1 << 20
"""Texts up to this many bytes are kept."""
_MOST_ENTRIES = 1 << 21
"""No vocabulary has more; a damaged length must not keep anyone waiting."""
_SHORT_ARRAY = 1 << 12
"""Arrays up to this long are kept: one value for each layer. Longer ones are vocabularies."""

_AGAIN = "the file is damaged or cut short: download it again"


@dataclass(frozen=True, slots=True)
class Header:
    """What a model says of itself; 0 and empty where it does not.

    ``context`` is the length it was trained for, in tokens. ``kv_widths`` are, for each layer, how many
    numbers the keys and the values of one token take. ``kind`` is ``model`` unless the file is a part of
    one, such as an adapter.
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


def read_header(path: Path) -> Header:
    """Read the header of the file at ``path``. Raises BadModelFile, whatever the file holds."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            return parse_header(file, size, path)
    except OSError as error:
        raise BadModelFile(path, f"cannot be read ({error.strerror or error})") from error


def parse_header(file: BinaryIO, size: int, path: Path) -> Header:
    """Read a header from the start of ``file``, of which ``size`` bytes can be had. Raises BadModelFile."""
    try:
        return _header(_values(_Reader(file, size)))
    except _Damage as error:
        raise BadModelFile(path, error.problem, error.cure) from None


class _Damage(Exception):
    def __init__(self, problem: str, cure: str = _AGAIN) -> None:
        self.problem, self.cure = problem, cure
        super().__init__(problem)


class _Reader:
    """Little-endian values from a file that may end, or lie, anywhere."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def bytes(self, length: int) -> bytes:
        if length > self._left:
            raise _Damage("its header is cut short")
        data = self._file.read(length)
        if len(data) != length:
            raise _Damage("its header is cut short")
        self._left -= length
        return data

    def skip(self, length: int) -> None:
        if length > self._left:
            raise _Damage("its header is cut short")
        self._file.seek(length, 1)
        self._left -= length

    def scalar(self, code: str) -> int | float | bool:
        return cast("int | float | bool", struct.unpack(f"<{code}", self.bytes(struct.calcsize(code)))[0])

    def length(self, code: str = "Q") -> int:
        return int(self.scalar(code))

    def text(self) -> str:
        length = self.length()
        if length > _LONG_TEXT:
            self.skip(length)
            return ""
        return self.bytes(length).decode("utf-8", "replace")


def _values(reader: _Reader) -> dict[str, Value]:
    """The values of the header, up to the first long array once the shape of the model is known."""
    if reader.bytes(4) != b"GGUF":
        raise _Damage("not a GGUF file", "download or convert the model in GGUF format")
    version = reader.length("I")
    if version not in (2, 3):
        raise _Damage(
            f"GGUF version {version} is not known here", "convert it again, or install a newer srbwriter"
        )
    reader.length()  # the number of tensors
    count = reader.length()
    if count > _MOST_KEYS:
        raise _Damage(f"its header claims {count} entries")
    values: dict[str, Value] = {}
    for _ in range(count):
        key = reader.text()
        kind = reader.length("I")
        if kind == _ARRAY:
            if not _take_array(reader, key, values):
                break
        else:
            values[key] = _scalar(reader, kind)
    return values


def _scalar(reader: _Reader, kind: int) -> Value:
    if kind == _STRING:
        return reader.text()
    if kind not in _SCALARS:
        raise _Damage(f"its header holds a value of the unknown type {kind}")
    return reader.scalar(_SCALARS[kind])


def _take_array(reader: _Reader, key: str, values: dict[str, Value]) -> bool:
    """Read or skip an array; False if nothing that matters can follow it."""
    kind, length = reader.length("I"), reader.length()
    if key == "tokenizer.ggml.tokens":
        values["tokens"] = length
        if _shape_is_known(values):
            return False
    if length > _MOST_ENTRIES:
        raise _Damage(f"its header claims a list of {length} entries")
    if kind == _STRING:
        for _ in range(length):
            reader.skip(reader.length())
    elif kind not in _SCALARS:
        raise _Damage(f"its header holds an array of the unknown type {kind}")
    elif length <= _SHORT_ARRAY:
        code = f"{length}{_SCALARS[kind]}"
        values[key] = list(struct.unpack(f"<{code}", reader.bytes(struct.calcsize(f"<{code}"))))
    else:
        reader.skip(length * struct.calcsize(_SCALARS[kind]))
    return True


def _shape_is_known(values: Mapping[str, Value]) -> bool:
    return f"{values.get('general.architecture')}.block_count" in values


def _header(values: Mapping[str, Value]) -> Header:
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str):
        raise _Damage("its header does not say what kind of model it is")

    def number(key: str) -> int:
        found = values.get(f"{architecture}.{key}", 0)
        return found if isinstance(found, int) and 0 <= found < 1 << 40 else 0

    layers = number("block_count")
    if layers > _SHORT_ARRAY:
        raise _Damage(f"its header claims {layers} layers")
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
