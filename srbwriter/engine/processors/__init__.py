"""The seam before a token is chosen: processors change a branch's row of logits.

Each of them gets a copy of the row, in order, and changes it in place. The choice itself is the branch's
sampler chain, or a draw that it shares with its siblings (:mod:`.siblings`); what a grammar forbids is
looked at after the choice (:mod:`srbwriter.engine.constraints`), since a mask of the whole vocabulary is dear
and the chosen token mostly allowed. A new processor is one module here and one line in :data:`PROCESSORS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .base import LogitProcessor
from .caller import process_by_caller
from .positions import bar_tokens, delay_end
from .siblings import repel_siblings

if TYPE_CHECKING:
    from ..active import ActiveBranch

PROCESSORS: tuple[Callable[[ActiveBranch], LogitProcessor[ActiveBranch] | None], ...] = (
    process_by_caller,
    delay_end,
    bar_tokens,
    repel_siblings,
)
"""Each makes a processor for a branch whose settings ask for one; they are applied in this order."""


def processors_for(branch: ActiveBranch) -> list[LogitProcessor[ActiveBranch]]:
    """Return the processors of a branch that have anything to do."""
    made = [processor for make in PROCESSORS if (processor := make(branch)) is not None]
    return [processor for processor in made if not processor.done(branch)]
