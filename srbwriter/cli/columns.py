"""Lists on standard output: columns for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

_CONTROL = {code: None for code in (*range(32), *range(127, 160))}


def plain(text: str) -> str:
    """Return ``text`` without control characters, which a terminal would execute; titles come from files."""
    return text.translate(_CONTROL)


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Lay out rows in columns as wide as their widest cell; align the columns in ``right`` to the right."""
    from rich.cells import cell_len  # wide characters take two cells, combining ones none

    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    lines: list[str] = []
    for row in cells:
        gaps = [" " * (width - cell_len(cell)) for width, cell in zip(widths, row, strict=True)]
        both = enumerate(zip(gaps, row, strict=True))
        lines.append("  ".join(gap + cell if i in right else cell + gap for i, (gap, cell) in both).rstrip())
    return "\n".join(lines)


def document(value: object) -> str:
    """Return ``value`` as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2)
