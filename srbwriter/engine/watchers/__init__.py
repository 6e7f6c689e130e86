"""The seam after a token was chosen: watchers read each token's text and decide whether the branch continues.

A branch shows every watcher the text of each token once, in order (:mod:`srbwriter.engine.text`). Text is
published only as far as no watcher may still cut it off. A new stop rule is one module here and one line in
:data:`STOP_RULES`; the branch does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from ..types import FinishReason, Sampling, Stop


class Continue(NamedTuple):
    """The branch continues; the last ``hold`` characters may still be cut off and are not published."""

    hold: int = 0


class Finish(NamedTuple):
    """The branch ends; the first ``keep`` characters of its decoded text stay."""

    reason: FinishReason
    keep: int
    stop_text: str | None


class Rewind(NamedTuple):
    """The branch has to go back before ``start``: characters ``start`` to ``end`` are a banned ``phrase``."""

    start: int
    end: int
    phrase: str


Verdict: TypeAlias = "Continue | Finish | Rewind"

GO_ON = Continue()


class Watcher(Protocol):
    """Watches the text of one branch. Positions are characters of the branch's decoded text."""

    rewinds: ClassVar[bool]
    """Whether it may answer :class:`Rewind`, so that checkpoints are kept for what it holds back."""

    def accept(self, text: str, end: int, tokens: int) -> Verdict:
        """Read ``text``, which ends at ``end`` and was added by the branch's ``tokens``-th token."""
        ...

    def skip(self, text: str, end: int) -> None:
        """Pass over ``text``, in or before which no match may begin: it was typed, or ends the prompt."""
        ...

    def restart(self, text: str, position: int, pending: int) -> None:
        """Forget everything: ``text`` precedes ``position``, and no rule may cut into it.

        The next ``pending`` characters repeat the end of the prompt (token healing).
        """
        ...

    def resume(self, held: str, published: int, inside: bool, earlier: Watcher | None) -> None:
        """Start in the middle of a text: ``held`` follows ``published`` characters.

        ``inside`` says that the text since the last restart is not empty; ``earlier`` is the watcher of the
        same class under the rules until now.
        """
        ...

    def copy(self) -> Watcher:
        """Return an independent copy in the same state."""
        ...


def stop_rules(stop: Stop) -> list[Watcher]:
    """Return a watcher for each rule of ``stop`` that looks at text, in the order of precedence."""
    return [watcher for make in STOP_RULES if (watcher := make(stop)) is not None]


def rewinder_settings(sampling: Sampling) -> Hashable:
    """Return what of ``sampling`` its rewinders depend on."""
    return sampling.banned_phrases


def rewinders_for(sampling: Sampling, text_before: Callable[[int], str]) -> list[Watcher]:
    """Return the watchers that may rewind a branch.

    ``text_before`` gives the end of the text before the branch, at least the number of characters given to
    it.
    """
    return [watcher for make in REWINDERS if (watcher := make(sampling, text_before)) is not None]


from .boundary import watch_boundary  # noqa: E402 - the modules of the rules import the types above
from .phrases import watch_phrases  # noqa: E402
from .stop_text import watch_stop_strings, watch_token_endings  # noqa: E402

STOP_RULES: tuple[Callable[[Stop], Watcher | None], ...] = (
    watch_stop_strings,
    watch_boundary,
    watch_token_endings,
)
"""Where two rules keep equally much of the text, the first of them ends the branch."""
REWINDERS: tuple[Callable[[Sampling, Callable[[int], str]], Watcher | None], ...] = (watch_phrases,)
