"""Banned phrases of a story's branches, edited as a list with one phrase a line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter.engine.parameters import validate

if TYPE_CHECKING:
    from .session import Session

_CLICHES = Path(__file__).with_name("cliches.txt")
"""The initial list of a story without phrases; it bans nothing until the writer saves it."""


def as_sheet(phrases: tuple[str, ...]) -> str:
    """Return the text of the list for editing."""
    return "\n".join(phrases) + "\n" if phrases else _CLICHES.read_text("utf-8")


def sheet_lines(sheet: str) -> tuple[str, ...]:
    """Return the lines of an edited list, each once, without remarks (``#``)."""
    lines = (" ".join(line.split()) for line in sheet.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))


def ban_phrases(session: Session, phrases: tuple[str, ...]) -> None:
    """Ban ``phrases`` in new branches, and in the further text of running ones.

    Raises InvalidRequest for too many or too long phrases, and NotSupported if the engine cannot ban any.
    """
    sampling = replace(session.sampling, banned_phrases=phrases)
    validate(sampling)
    session.sampling = sampling
    for branch in session.round.branches if session.round is not None else ():
        if branch.live and session.capabilities.has("banned_phrases"):
            own = replace(branch.sampling, banned_phrases=phrases, seed=None)
            session.steer(branch.index, "change", sampling=own)
