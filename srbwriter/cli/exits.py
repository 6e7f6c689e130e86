"""What the program's exit codes mean, and the error that carries one."""

from __future__ import annotations

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
    USAGE = 2, "a flag, variable or configuration value cannot be used"
    MODEL = 3, "the model cannot be used"
    INTERRUPTED = 130, "stopped by ctrl+c"


class Failure(Exception):
    """A command cannot do its work; the message is printed as it is, and the code returned."""

    def __init__(self, message: str, code: Exit = Exit.ERROR) -> None:
        self.code = code
        super().__init__(message)
