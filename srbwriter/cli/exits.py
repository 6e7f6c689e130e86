"""Exit codes, the exception that carries one, and messages on standard error."""

from __future__ import annotations

import sys
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes with their descriptions for ``--help``."""

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
    """A command failed. The message is printed unchanged, and the code becomes the exit code."""

    def __init__(self, message: str, code: Exit = Exit.ERROR) -> None:
        self.code = code
        super().__init__(message)


def say(line: str) -> None:
    """Print a message to standard error; standard output is only for results."""
    sys.stderr.write(f"srbwriter: {line}\n")  # one write, so that messages of threads do not mix
    sys.stderr.flush()
