"""How the program speaks of itself: exit codes, the error that carries one, and lines on standard error."""

from __future__ import annotations

import sys
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, with the words that ``--help`` prints for them."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Exit:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "everything went well"
    ERROR = 1, "something went wrong; the message says what"
    USAGE = 2, "a flag, variable, setting or name of a story cannot be used"
    MODEL = 3, "the model cannot be used"
    DAMAGED = 4, "a story is damaged; the report says what is missing"
    INTERRUPTED = 130, "stopped by ctrl+c"


class Failure(Exception):
    """A command cannot do its work; the message is printed as it is, and the code returned."""

    def __init__(self, message: str, code: Exit = Exit.ERROR) -> None:
        self.code = code
        super().__init__(message)


def say(line: str) -> None:
    """Tell whoever runs the program something; standard output is for text and JSON only."""
    sys.stderr.write(f"srbwriter: {line}\n")  # in one piece: another thread may be saying something, too
    sys.stderr.flush()
