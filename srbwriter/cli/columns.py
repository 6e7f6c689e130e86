"""Lists on standard output: columns for people, JSON for programs. Knows nothing of what is listed."""

from __future__ import annotations

import json
from collections.abc import Sequence

_CONTROL = {code: None for code in (*range(32), *range(127, 160))}


def plain(text: str) -> str:
    """``text`` without control characters: titles come from files, and a terminal obeys what they say."""
    return text.translate(_CONTROL)


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows below each other, every column as wide as its widest cell; those in ``right`` to the right."""
    from rich.cells import cell_len  # wide and combining characters take other room than one cell

    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]

    def padded(row: Sequence[str]) -> str:
        parts: list[str] = []
        for index, cell in enumerate(row):
            gap = " " * (widths[index] - cell_len(cell))
            parts.append(gap + cell if index in right else cell + gap)
        return "  ".join(parts).rstrip()

    return "\n".join(map(padded, cells))


def document(value: object) -> str:
    """``value`` as JSON for another program."""
    return json.dumps(value, ensure_ascii=False, indent=2)
