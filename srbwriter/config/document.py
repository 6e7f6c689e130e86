"""A settings file: its values, and the line of each, so that a complaint can name the place.

Knows TOML and one file at a time; knows no keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

_HEADER = re.compile(r"\s*\[+([^\[\]]+)\]")
_ENTRY = re.compile(r"""\s*([\w."' -]+?)\s*=""")
_AT = re.compile(r" \(at line (\d+), column (\d+)\)$")
_QUOTES = re.compile(r'"""|\'\'\'')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Document:
    """The content of one file. ``problems`` describes the parts that are no UTF-8 or no TOML."""

    def __init__(self, file: Path, data: bytes) -> None:
        import tomllib

        self.file = file
        self.problems: list[str] = []
        data = data.removeprefix(_BYTE_ORDER_MARK)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            byte = f"0x{data[error.start]:02x}"
            self.problems.append(f"{file}:{line}: the byte {byte} is not UTF-8 — save the file as UTF-8")
            text = data.decode(errors="replace")
        self._values: dict[str, Any] = {}
        try:
            self._values = tomllib.loads(text)
        except ValueError as error:
            self.problems.append(_not_toml(file, str(error)))
        self._lines = _lines(text)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield each value with its name: ``section.key``, or ``key`` before all sections."""
        for section, content in self._values.items():
            if isinstance(content, dict):
                for name, value in cast("dict[str, Any]", content).items():
                    yield f"{section}.{name}", value
            else:
                yield section, content

    def place(self, name: str) -> str:
        """The file, and the line where ``name`` is said, if it can be found."""
        within = [line for known, line in self._lines.items() if known.startswith(f"{name}.")]
        known = [self._lines.get(name), *within, self._lines.get(name.rpartition(".")[0])]
        line = next((line for line in known if line), None)
        return str(self.file) if line is None else f"{self.file}:{line}"


def _not_toml(file: Path, words: str) -> str:
    at = _AT.search(words)
    place = f"{file}:{at[1]}" if at else str(file)
    column = f" (column {at[2]})" if at else ""
    cure = 'write one KEY = VALUE a line, and texts in "quotes"'
    return f"{place}: this is not TOML: {_AT.sub('', words)}{column} — {cure}"


def _lines(text: str) -> dict[str, int]:
    """The line on which each name is first said, headers among them."""
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
