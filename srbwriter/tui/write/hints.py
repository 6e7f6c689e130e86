"""Hints that are shown to the writer once, in this run or an earlier one."""

from __future__ import annotations

import logging

from srbwriter import paths

log = logging.getLogger(__name__)


def give_once(hint: str) -> bool:
    """Return True the first time ``hint`` is asked about, and record it as shown.

    If the state folder cannot be read or written, return True.
    """
    file = paths.state_dir() / "hints.txt"
    try:
        given = file.read_text("utf-8").splitlines() if file.exists() else []
        if hint in given:
            return False
        paths.write_atomic(file, "\n".join([*given, hint, ""]).encode())
    except (OSError, ValueError) as error:
        log.warning("cannot read or write the list of shown hints: %s", error)
    return True
