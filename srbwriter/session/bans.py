"""Banned phrases of a story's branches, edited as a list with one phrase a line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from srbwriter.engine.parameters import validate

if TYPE_CHECKING:
    from .session import Session

CLICHES = """\
a testament to
a tapestry of
a symphony of
a mix of
a mixture of
a dance of
a glimmer of hope
a kaleidoscope of
a shiver down
shivers down
sent shivers
barely above a whisper
barely a whisper
voice barely
little did they know
little did he know
little did she know
couldn't help but
could not help but
unable to help but
let out a breath
breath he didn't know
breath she didn't know
breath they didn't know
eyes sparkling with
eyes sparkled with
eyes glinting with
eyes gleamed with
eyes widened
heart pounding in
heart hammering in
heart skipped a beat
the weight of the world
the air was thick with
hung heavy in the air
time seemed to stand still
time stood still
a sense of
sent a chill
steeled himself
steeled herself
took a deep breath
chuckled darkly
a mischievous glint
a wry smile
a knowing smile
a ghost of a smile
smile playing on
the corners of his mouth
the corners of her mouth
a single tear
ministrations
maybe, just maybe
in the grand scheme
the road ahead
only time will tell
nestled in
bustling with
against all odds
with newfound
the journey had only just begun
happily ever after
# What models write too often. Take out and add what you like; an empty sheet bans nothing.
# Small and large letters are alike; where a phrase ends does not matter (shiver is found in shivers).
"""
"""The initial list of a story without phrases; it bans nothing until the writer saves it."""


def as_sheet(phrases: tuple[str, ...]) -> str:
    """Return the text of the list for editing."""
    return "\n".join(phrases) + "\n" if phrases else CLICHES


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
