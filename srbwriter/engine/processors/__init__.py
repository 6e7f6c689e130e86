"""The seam before a token is chosen: processors change a branch's row of logits.

Each of them gets a copy of the row, in order, and changes it in place. The choice itself is the branch's
sampler chain, or a draw that it shares with its siblings (:mod:`.siblings`); what a grammar forbids is
looked at after the choice (:mod:`srbwriter.engine.constraints`), since a mask of the whole vocabulary is dear
and the chosen token mostly allowed. A new processor is one module here and one line in :data:`PROCESSORS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import LogitProcessor
from .caller import CallerCallback
from .positions import BarredTokens, DelayedEnd
from .siblings import Repulsion

if TYPE_CHECKING:
    from ..active import ActiveBranch

PROCESSORS: tuple[LogitProcessor[ActiveBranch], ...] = (
    CallerCallback(),
    DelayedEnd(),
    BarredTokens(),
    Repulsion(),
)
"""They keep nothing of a branch, and are applied in this order."""


def processors_for(branch: ActiveBranch) -> list[LogitProcessor[ActiveBranch]]:
    """Return the processors that have anything to do for a branch."""
    return [processor for processor in PROCESSORS if not processor.done(branch)]
