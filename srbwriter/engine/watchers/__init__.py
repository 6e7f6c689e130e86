"""The seam after a token was chosen: watchers read each token's text and decide whether the branch continues.

A branch shows every watcher the text of each token once, in order (:mod:`srbwriter.engine.text`). Text is
published only as far as no watcher may still cut it off. A new stop rule is one module here and one line in
:data:`STOP_RULES`; the branch does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ..types import Sampling, Stop
from .base import GO_ON, Continue, Finish, Rewind, Verdict, Watcher
from .boundary import watch_boundary
from .loops import watch_loops
from .phrases import watch_phrases
from .stop_text import watch_stop_strings, watch_token_endings

__all__ = [
    "GO_ON", "REWINDER_FIELDS", "Continue", "Finish", "Rewind", "Verdict", "Watcher",
    "rewinder_settings", "rewinders_for", "stop_rules",
]  # fmt: skip

STOP_RULES: tuple[Callable[[Stop], Watcher | None], ...] = (
    watch_stop_strings,
    watch_boundary,
    watch_token_endings,
)
"""Where two rules keep equally much of the text, the first of them ends the branch."""
REWINDERS: tuple[Callable[[Sampling, Callable[[int], str]], Watcher | None], ...] = (
    watch_phrases,
    watch_loops,
)

REWINDER_FIELDS: dict[str, object] = {"banned_phrases": (), "loop_guard": 0}
"""The fields of a sampling that only rewinders read, and their values without one."""


def stop_rules(stop: Stop) -> list[Watcher]:
    """Return a watcher for each rule of ``stop`` that looks at text, in the order of precedence."""
    return [watcher for make in STOP_RULES if (watcher := make(stop)) is not None]


def rewinder_settings(sampling: Sampling) -> Hashable:
    """Return what of ``sampling`` its rewinders depend on."""
    return tuple(getattr(sampling, name) for name in REWINDER_FIELDS)


def rewinders_for(sampling: Sampling, text_before: Callable[[int], str]) -> list[Watcher]:
    """Return the watchers that may rewind a branch.

    ``text_before`` gives the end of the text before the branch, at least the number of characters given to
    it.
    """
    return [watcher for make in REWINDERS if (watcher := make(sampling, text_before)) is not None]
