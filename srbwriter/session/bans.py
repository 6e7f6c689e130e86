"""Banned phrases of a story's branches, edited as a list with one phrase a line. Imports no screen."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from srbwriter.engine.parameters import validate

from .instrument import Instrument

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


class Bans(Instrument):
    """Bans phrases in new and running branches."""

    name: ClassVar[str] = "bans"

    def ban(self, phrases: tuple[str, ...]) -> None:
        """Ban ``phrases`` in new branches, and in the further text of running ones.

        Raises InvalidRequest for too many or too long phrases, and NotSupported if the engine cannot ban any.
        """
        desk = self._desk
        sampling = replace(desk.sampling, banned_phrases=phrases)
        validate(sampling)
        desk.sampling = sampling
        for branch in desk.round.branches if desk.round is not None else ():
            if branch.live and desk.capabilities.has("banned_phrases"):
                own = replace(branch.sampling, banned_phrases=phrases, seed=None)
                desk.steer(branch.index, "change", sampling=own)
