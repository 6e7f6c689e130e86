"""The line above a branch's text, for the width there is.

Words are shortened before a part is left out, and numbers go before what the writer has set himself: his
marks stay longest. Knows strings; knows no widget and no branch.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

_SHORT_MARKS = {"locked": "lock", "good": "+", "bad": "−"}  # the signs that the tree has, too


class Head(NamedTuple):
    """What there is to say about a branch; empty or 0 is nothing."""

    name: str
    sign: str = ""  # of its state
    state: str = ""  # in words
    thoughts: int = 0  # words that are folded away
    note: str = ""  # how its sampling differs, comma-separated
    marks: str = ""  # separated by spaces
    hidden: int = 0  # lines below those in view
    tokens: int = 0
    speed: float = 0.0  # tokens a second

    def line(self, width: int) -> str:
        """All of it, or as much as ``width`` cells can hold."""
        parts = {
            "state": self.state,
            "thoughts": f"thought {self.thoughts} words" if self.thoughts else "",
            "note": self.note,
            "marks": self.marks,
            "hidden": f"↓{self.hidden}" if self.hidden else "",
            "tokens": f"{self.tokens} tok",
            "speed": f"{self.speed:.0f}/s" if self.speed else "",
        }
        left, right = self._sides(parts)
        for part, shorter in self._shorter():
            if cell_len(left) + cell_len(right) + bool(right) <= width:
                break
            parts[part] = shorter
            left, right = self._sides(parts)
        return f"{set_cell_size(left, max(0, width - cell_len(right)))}{right}"

    def _shorter(self) -> tuple[tuple[str, str], ...]:
        """What gives way, one after the other, until the line fits."""
        note, *more = self.note.split(", ")
        return (
            ("speed", ""),
            ("tokens", str(self.tokens)),
            ("state", self.state.removeprefix("done at ")),
            ("thoughts", f"thought {self.thoughts}" if self.thoughts else ""),
            ("note", f"{note} …" if more else note),
            ("marks", " ".join(_SHORT_MARKS.get(mark, mark) for mark in self.marks.split())),
            ("tokens", ""),
            ("hidden", ""),
            ("state", ""),  # its sign says it
            ("thoughts", ""),
            ("note", ""),
        )

    def _sides(self, parts: dict[str, str]) -> tuple[str, str]:
        left = f" {self.name} {self.sign} {parts['state']}".rstrip()
        left += "".join(f" · {parts[part]}" for part in ("thoughts", "note", "marks") if parts[part])
        return left, " ".join(parts[part] for part in ("hidden", "tokens", "speed") if parts[part])
