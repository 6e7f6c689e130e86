"""The seam before a token is chosen: processors change a branch's row of logits.

Each of them gets a copy of the row, in order, and changes it in place. The choice itself is the branch's
sampler chain, or a draw that it shares with its siblings (:mod:`.siblings`); what a grammar forbids is
looked at after the choice (:mod:`srbwriter.engine.constraints`), since a mask of the whole vocabulary is dear
and the chosen token mostly allowed. A new processor is one module here and one line in :data:`PROCESSORS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..active import ActiveBranch

    Logits: TypeAlias = "NDArray[np.float32]"


class LogitProcessor(Protocol):
    """Changes the logits that a token of one branch is chosen from."""

    def done(self, branch: ActiveBranch) -> bool:
        """Whether it changes nothing any more, until the branch's text or its rules are changed."""
        ...

    def apply(self, logits: Logits, branch: ActiveBranch) -> None:
        """Change ``logits``, a private copy of the row, in place."""
        ...


from .caller import process_by_caller  # noqa: E402 - the modules import the protocol above
from .positions import bar_tokens, delay_end  # noqa: E402
from .siblings import repel_siblings  # noqa: E402

PROCESSORS: tuple[Callable[[ActiveBranch], LogitProcessor | None], ...] = (
    process_by_caller,
    delay_end,
    bar_tokens,
    repel_siblings,
)
"""Each makes a processor for a branch whose settings ask for one; they are applied in this order."""


def processors_for(branch: ActiveBranch) -> list[LogitProcessor]:
    """Return the processors of a branch that have anything to do."""
    made = [processor for make in PROCESSORS if (processor := make(branch)) is not None]
    return [processor for processor in made if not processor.done(branch)]
