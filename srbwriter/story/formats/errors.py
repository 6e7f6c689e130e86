"""The error of a file that cannot be read."""

from __future__ import annotations


class FormatError(ValueError):
    """A file is not what it should be.  Says which file, where in it, and what was expected there."""

    def __init__(self, file: str, place: str, expected: str) -> None:
        super().__init__(f"{file}: at {place}: expected {expected}")
        self.file = file
        self.place = place
        self.expected = expected
