"""A settings file: its values, and the line of each, so that a complaint can name it. Knows no keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

_HEADER = re.compile(r"\s*\[+([^\[\]]+)\]")
_ENTRY = re.compile(r"""\s*([\w."' -]+?)\s*=""")
_AT = re.compile(r" \(at line (\d+), column (\d+)\)$")
_QUOTES = re.compile(r'"""|\'\'\'')


def read_document(file: Path, data: bytes, problems: list[str]) -> Iterator[tuple[str, Any, str]]:
    """Yield the values of a file: the name, ``section.key`` or ``key``, the value, and its place.

    What is no UTF-8 or no TOML is added to ``problems``.
    """
    import tomllib

    data = data.removeprefix(b"\xef\xbb\xbf")  # as Windows saves it
    text, values = data.decode(errors="replace"), dict[str, Any]()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"0x{data[error.start]:02x}"
        problems.append(f"{file}:{line}: the byte {byte} is not UTF-8 — save the file as UTF-8")
    try:
        values = tomllib.loads(text)
    except ValueError as error:
        at = _AT.search(str(error))
        place, column = (f"{file}:{at[1]}", f" (column {at[2]})") if at else (str(file), "")
        words = f"this is not TOML: {_AT.sub('', str(error))}{column}"
        problems.append(f'{place}: {words} — write one KEY = VALUE a line, and texts in "quotes"')
    lines = _lines(text)
    for section, content in values.items():
        entries = cast("dict[str, Any]", content) if isinstance(content, dict) else {"": content}
        for leaf, value in entries.items():
            name = f"{section}.{leaf}".removesuffix(".")
            within = [line for known, line in lines.items() if known.startswith(f"{name}.")]
            line = next(filter(None, (lines.get(name), *within, lines.get(section))), None)
            yield name, value, str(file) if line is None else f"{file}:{line}"


def _lines(text: str) -> dict[str, int]:
    """Return the line on which each name is first said, headers among them."""
    found: dict[str, int] = {}
    section, inside = "", False  # a text of several lines
    for number, line in enumerate(text.split("\n"), 1):
        if not inside:
            if header := _HEADER.match(line):
                section = _name(header[1])
                found.setdefault(section, number)
            elif entry := _ENTRY.match(line):
                found.setdefault(f"{section}.{_name(entry[1])}".removeprefix("."), number)
        inside ^= len(_QUOTES.findall(line)) % 2 == 1
    return found


def _name(written: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in written.split("."))
