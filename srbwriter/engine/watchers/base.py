"""What watchers answer, and what each of them does."""

from __future__ import annotations

import copy
from typing import ClassVar, NamedTuple, TypeAlias

from ..types import FinishReason


class Continue(NamedTuple):
    """The branch continues; the last ``hold`` characters may still be cut off and are not published.

    With ``weigh`` the logits of their tokens are kept, as :class:`Rewind` needs for ``nearest``.
    """

    hold: int = 0
    weigh: bool = False


class Finish(NamedTuple):
    """The branch ends; the first ``keep`` characters of its decoded text stay."""

    reason: FinishReason
    keep: int
    stop_text: str | None


class Rewind(NamedTuple):
    """The branch has to go back: characters ``start`` to ``end`` are a banned ``phrase``, or a repetition.

    With ``nearest`` it chooses anew at the last token that could well have been another, otherwise at the
    token in which ``start`` lies.
    """

    start: int
    end: int
    phrase: str
    nearest: bool = True


Verdict: TypeAlias = "Continue | Finish | Rewind"

GO_ON = Continue()


class Watcher:
    """Watches the text of one branch. Positions are characters of the branch's decoded text.

    Methods that have no body here do nothing unless a watcher overrides them.
    """

    rewinds: ClassVar[bool] = False
    """Whether it may answer :class:`Rewind`, so that checkpoints are kept for what it holds back."""

    def accept(self, text: str, end: int, tokens: int) -> Verdict:
        """Read ``text``, which ends at ``end`` and was added by the branch's ``tokens``-th token."""
        raise NotImplementedError

    def skip(self, text: str, end: int) -> None:
        """Pass over ``text``, in or before which no match may begin: it was typed, or ends the prompt."""

    def restart(self, text: str, position: int, pending: int) -> None:
        """Forget everything: ``text`` precedes ``position``, and no rule may cut into it.

        The next ``pending`` characters repeat the end of the prompt (token healing).
        """

    def resume(self, held: str, published: int, inside: bool, earlier: Watcher | None) -> None:
        """Start in the middle of a text: ``held`` follows ``published`` characters.

        ``inside`` says that the text since the last restart is not empty; ``earlier`` is the watcher of the
        same class under the rules until now.
        """

    def copy(self) -> Watcher:
        """Return an independent copy in the same state."""
        return copy.copy(self)
