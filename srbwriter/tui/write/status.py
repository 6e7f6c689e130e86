"""The texts of the status line, from the state of the session."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from srbwriter.engine.types import BranchState
from srbwriter.session.ahead import LookAhead
from srbwriter.session.loops import repeats
from srbwriter.session.steering import Steering
from srbwriter.story.model import NoSuchNode, StoryError, counted
from srbwriter.tui.widgets.lines import bar

if TYPE_CHECKING:
    from srbwriter.session import Session
    from srbwriter.story import NodeId

_COUNT_SECONDS = 1.0
_TITLE_CELLS, _WISH_CELLS = 24, 32
_ESTIMATE_SECONDS = 1.0  # earlier estimates are unreliable


def time_left(spent: float, share: float) -> str:
    """Estimate the remaining time of work that took ``spent`` seconds for ``share`` of it; empty if
    unreliable."""
    if spent < _ESTIMATE_SECONDS or not 0 < share < 1:
        return ""
    seconds = spent / share * (1 - share)
    if seconds < 99.5:
        return f"{max(1, round(seconds))} s left"
    minutes = seconds / 60
    return f"{round(minutes)} min left" if minutes < 99.5 else f"{round(minutes / 60)} h left"


class Watch:
    """Estimates the remaining time of work from periodic progress values."""

    def __init__(self) -> None:
        self._at = self._from = self._last = 0.0

    def left(self, share: float) -> str:
        """Return the remaining time of work that is at ``share``; a smaller share starts a new estimate."""
        now = time.monotonic()
        if not 0 < self._last <= share:
            self._at, self._from = now, share
        self._last = share
        return time_left(now - self._at, (share - self._from) / (1 - self._from)) if share < 1 else ""


def progress(words: str, share: float, time_left: str) -> tuple[str, ...]:
    """Return the status line's parts for long work: name, progress bar, how to stop; the time left."""
    line = f"{words} {bar(share)} {share:4.0%}  ·  esc stops"
    return (line, time_left) if time_left else (line,)


def title(session: Session) -> str:
    """Return the story's title, shortened."""
    return shortened(" ".join(session.story.title.split()), _TITLE_CELLS)


def shortened(name: str, most: int) -> str:
    """Shorten a name to ``most`` cells."""
    return name if cell_len(name) <= most else f"{set_cell_size(name, most - 1).rstrip()}…"


def left(
    session: Session, load: Watch, work: tuple[str, ...] = (), figures: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the title, or ``figures`` in its place; while long work is done, its progress or trouble."""
    if work:
        return work
    if (work_now := session.long_work) is not None:
        return (f"{work_now.progress}  ·  esc stops",)
    if session.engine_state in ("INIT", "LOADING"):
        share = session.load_progress
        if share > 0.99:  # read, and still to be laid out in memory
            return ("preparing the model  ·  esc stops",)
        return progress("loading the model", share, load.left(share))
    if session.engine_state == "FAILED":
        return (f"no model: {session.engine_error}",)
    if (reading := _reading(session)) is not None:
        return reading
    if trouble := _trouble(session):
        return (trouble,)
    wish = session.round.wish if session.round is not None else ""
    asked = (f"asked for: {shortened(wish, _WISH_CELLS)}",) if wish else ()
    return (*_failed(session), *(figures or (title(session),)), *asked)


def engine_figures(session: Session, address: str = "") -> tuple[str, ...]:
    """Return model, branches, context, speed and what else the engine does, most important first."""
    current = session.round
    parts = [session.model.name if session.model is not None else "no model", f"{session.n} branches"]
    generation = current.generation if current is not None else None
    total = len(generation.prompt_ids) if generation is not None else 0
    if generation is not None and session.model is not None and total:
        parts.append(f"context {total + generation.healed_tokens}/{session.model.n_ctx}")
    if current is not None:
        speed = sum(branch.tokens_per_second for branch in current.branches if branch.live)
        if speed:
            parts.append(f"{speed:.0f} tok/s")
    if generation is not None and total:
        parts.append(f"{generation.cached_tokens} of {total} tokens from cache")
    parts += [ahead(session), address]
    if session.model is not None and session.model.device:
        parts.append(f"runs on {session.model.device}")
    return tuple(part for part in parts if part)


def ahead(session: Session) -> str:
    """Return how many tokens are prefetched, out of how many; empty if prefetching is off."""
    looking = LookAhead.of(session)
    if looking.budget.mode == "off":
        return ""
    if looking.why_not:
        return "ahead off"
    sign = "▸" if looking.working else "»"
    return f"{sign} ahead {looking.spent}/{looking.budget.tokens}"


def right(session: Session, done_today: int, goal: int) -> tuple[str, ...]:
    """Return save state, word count, and today's words with a bar to the goal."""
    share = done_today / goal if goal else 0
    today = f"{done_today}/{goal} today {bar(share, 8)}" if goal else f"{done_today} today"
    return session.save_state, counted(session.story.words(session.node), "word"), today


def _trouble(session: Session) -> str:
    """Return why a running branch waits, such as a remote engine that does not answer."""
    branches = session.round.branches if session.round is not None else []
    return next((str(branch.error) for branch in branches if branch.live and branch.error is not None), "")


def _failed(session: Session) -> list[str]:
    """Return why branches failed; one reason only, since the line is short."""
    branches = session.round.branches if session.round is not None else []
    failed = [
        branch for branch in branches if branch.state is BranchState.FAILED and branch.error is not None
    ]
    if not failed:
        return []
    which = f"branch {failed[0].index + 1}" if len(failed) == 1 else f"{len(failed)} branches"
    return [f"{which} failed: {failed[0].error}"]


def _reading(session: Session) -> tuple[str, ...] | None:
    """Return the progress of evaluating the prompt, and the remaining time."""
    current = session.round
    generation = current.generation if current is not None else None
    if generation is None or not any(b.state is BranchState.PROMPT for b in generation.branches):
        return None
    total, done = len(generation.prompt_ids), generation.prompt_done
    if not total:
        return None
    cached = generation.cached_tokens
    spent = time.monotonic() - generation.submitted_at
    left = time_left(spent, (done - cached) / max(1, total - cached))
    return progress("reading the story", done / total, left)


class WordsToday:
    """The words that became part of the story today, typed or picked; read from disk at intervals."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._words, self._at = 0, -_COUNT_SECONDS

    def count(self) -> int:
        now = time.monotonic()
        if now - self._at > _COUNT_SECONDS:
            self._at = now
            with contextlib.suppress(StoryError):  # an unreadable file is reported elsewhere
                self._words = self._session.story.today().words
        return self._words


def round_identity(session: Session) -> object | None:
    """Return what changes with every new round; None without a round."""
    return session.round.identity if session.round is not None else None


def node_of(session: Session, index: int) -> NodeId | None:
    """Return the node of a branch of the round; None before it has one."""
    try:
        return session.round.node_of(index) if session.round is not None else None
    except IndexError:
        return None


def marks(session: Session, index: int, take: int | None = None) -> str:
    """Return the marks of a branch as signs. ``take`` is the number of characters to pick; None means all."""
    current = session.round
    if current is None:
        return ""
    if index >= len(current.branches) or not (node := node_of(session, index)):
        return ""
    try:
        found = session.story.node(node)
    except NoSuchNode:  # the transaction that created it has just failed
        return ""
    branch = current.branches[index]
    signs = (
        f"⌫{branch.bans}" if branch.bans else "",
        "★" if found.bookmark else "",
        "note" if Steering.of(session).note(index) else "",
        "repeats" if repeats(branch) else "",
        "ready" if LookAhead.of(session).share(index, take) == 1.0 else "",
    )
    return " ".join(sign for sign in signs if sign)


def note(session: Session, index: int) -> str:
    """Return the wish of a single branch."""
    if session.round is None:
        return ""
    wish = session.round.wishes.get(index, "").replace(", ", " ")  # commas separate notes
    return shortened(wish, _WISH_CELLS)
