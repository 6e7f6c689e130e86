"""What is wrong with a file: the error of one that cannot be read, and the faults of one that can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

AS_TEXT = "`srbwriter import --format text` takes it as it stands"


class FormatError(ValueError):
    """A file is not what it should be.  Says which file, where in it, and what was expected there."""

    def __init__(self, file: str, place: str, expected: str) -> None:
        super().__init__(f"{file}: at {place}: expected {expected}")
        self.file = file
        self.place = place
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a file that could not be taken as it stands, while the rest could.

    ``words`` say what was done about it.  ``value`` is what stood at ``place``, ``None`` if nothing did.
    """

    place: str
    words: str
    value: Any = None


class NotForUs(FormatError):
    """A sound file that cannot become a story here.  Says what it is, and what can be done about it."""

    def __init__(self, file: str, problem: str, cure: str, place: str = "byte 0") -> None:
        super().__init__(file, place, f"a file to import; it {problem} — {cure}")
        self.args = (f"{file} {problem} — {cure}",)
