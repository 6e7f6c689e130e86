"""What the writer is told once, in this run or an earlier one."""

from __future__ import annotations

import logging

from srbwriter import paths

log = logging.getLogger(__name__)


def give_once(hint: str) -> bool:
    """Return whether ``hint`` is given for the first time; from now on it has been given.

    Where the state folder cannot be read or written, it is the first time.
    """
    file = paths.state_dir() / "hints.txt"
    try:
        given = file.read_text("utf-8").splitlines() if file.exists() else []
        if hint in given:
            return False
        paths.write_atomic(file, "\n".join([*given, hint, ""]).encode())
    except (OSError, ValueError) as error:
        log.warning("cannot tell which hints were given: %s", error)
    return True
