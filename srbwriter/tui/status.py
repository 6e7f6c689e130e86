"""The words of the status line, from the session's state.

Knows what a session says about itself; knows no widget.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from srbwriter.engine.types import BranchState
from srbwriter.session.ahead import BATTERY
from srbwriter.session.exploring import odds_words, probability_words
from srbwriter.session.tokens import shown
from srbwriter.story.model import NoSuchNode, StoryError, counted
from srbwriter.tui.widgets.lines import bar

if TYPE_CHECKING:
    from srbwriter.engine.exploring import Opening
    from srbwriter.session import Round, Session
    from srbwriter.story import NodeId

_COUNT_SECONDS = 1.0
_TITLE_CELLS = 24
_TOLD_OPENINGS, _WORTH_TELLING = 3, 0.01  # of what no branch shows
_TELLING_SECONDS = 1.0  # before that, no estimate is worth a word


def time_left(spent: float, share: float) -> str:
    """How long a work goes on that took ``spent`` seconds for ``share`` of it; empty if that says little."""
    if spent < _TELLING_SECONDS or not 0 < share < 1:
        return ""
    seconds = spent / share * (1 - share)
    if seconds < 99.5:
        return f"{max(1, round(seconds))} s left"
    minutes = seconds / 60
    return f"{round(minutes)} min left" if minutes < 99.5 else f"{round(minutes / 60)} h left"


class Watch:
    """Estimates the time left of a work whose beginning was not seen, from looks at how far it is."""

    def __init__(self) -> None:
        self._at = self._from = self._last = 0.0

    def left(self, share: float) -> str:
        """The time left of a work that is at ``share`` now; another work begins when that goes back."""
        now = time.monotonic()
        if not 0 < self._last <= share:
            self._at, self._from = now, share
        self._last = share
        return time_left(now - self._at, (share - self._from) / (1 - self._from)) if share < 1 else ""


def progress(words: str, share: float, time_left: str) -> tuple[str, ...]:
    """The parts of the line of a long work: what it is, how far, and the way out; how long it will take."""
    line = f"{words} {bar(share)} {share:4.0%}  ·  esc stops"
    return (line, time_left) if time_left else (line,)


def title(session: Session) -> str:
    """What the story is called, in few cells."""
    return shortened(" ".join(session.title.split()), _TITLE_CELLS)


def shortened(name: str, most: int) -> str:
    """As much of a name as ``most`` cells hold."""
    return name if cell_len(name) <= most else f"{set_cell_size(name, most - 1).rstrip()}…"


def left(
    session: Session, load: Watch, work: tuple[str, ...] = (), on_branch: bool = False
) -> tuple[str, ...]:
    """Title, model, context and speed, most wanted first; while something takes long, how far that is.

    ``load`` watches the load of the model; ``work`` are the parts of what the writer asked for beside it. Who
    is ``on_branch`` is told first what no branch shows.
    """
    if work:
        return work
    if words := session.exploring.words:
        return (f"{words}  ·  esc stops",)
    if session.engine_state in ("INIT", "LOADING"):
        share = session.load_progress
        return progress("loading the model", share, load.left(share))
    if session.engine_state == "FAILED":
        return (f"no model: {session.engine_error}",)
    if (reading := _reading(session)) is not None:
        return reading
    if trouble := _trouble(session):
        return (trouble,)
    parts = [title(session), session.model.name if session.model is not None else "no model"]
    told = [words for words in (unexplored(session) if on_branch else "", ahead(session)) if words]
    parts = [*told, *parts] if on_branch else [*parts, *told]
    parts[:0] = _failed(session)
    current = session.round
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
    if session.model is not None and session.model.device:
        parts.append(f"runs on {session.model.device}")
    return tuple(parts)


def unexplored(session: Session) -> str:
    """How much of what could follow the branches show, and what they do not; empty if unknown."""
    fork = session.exploring.fork()
    if fork is None:
        return ""
    others = [o for o in fork.unexplored if o.probability >= _WORTH_TELLING][:_TOLD_OPENINGS]
    names = ", ".join(f"{opening_words(o)} {probability_words(o.probability)}" for o in others)
    return f"shown {probability_words(fork.covered)}" + (f", not {names}" if names else "")


def opening_words(opening: Opening) -> str:
    """What a token writes, as it stands in a line."""
    return shown(opening.raw, "the end").strip() or "␣"


def ahead(session: Session) -> str:
    """What is written ahead, of how many tokens; empty where that is off."""
    looking = session.look_ahead
    if looking.budget.mode == "off":
        return ""
    if looking.why_not:
        return "ahead off: battery" if looking.why_not == BATTERY else "ahead off"
    sign = "▸" if looking.working else "»"
    return f"{sign} ahead {looking.spent}/{looking.budget.tokens}"


def right(session: Session, done_today: int, goal: int, address: str = "") -> tuple[str, ...]:
    """Whether the words are safe, where a server listens, how many words, and how far today's goal is."""
    today = f"{done_today}/{goal} today" if goal else f"{done_today} today"
    parts = session.save_state, address, counted(session.words, "word"), today, f"N {session.n}"
    return tuple(part for part in parts if part)


def _trouble(session: Session) -> str:
    """What a branch that goes on has to wait for, such as an engine elsewhere that is away."""
    branches = session.round.branches if session.round is not None else []
    return next((str(branch.error) for branch in branches if branch.live and branch.error is not None), "")


def _failed(session: Session) -> list[str]:
    """Why branches failed; there is room for one reason, and the head of a branch may have none."""
    branches = session.round.branches if session.round is not None else []
    failed = [
        branch for branch in branches if branch.state is BranchState.FAILED and branch.error is not None
    ]
    if not failed:
        return []
    which = f"branch {failed[0].index + 1}" if len(failed) == 1 else f"{len(failed)} branches"
    return [f"{which} failed: {failed[0].error}"]


def _reading(session: Session) -> tuple[str, ...] | None:
    """How far the prompt is, while it is being evaluated, and how long that will take."""
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
    """Words that became part of the story today, typed and picked ones; read from the disk now and then."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._words, self._at = 0, -_COUNT_SECONDS

    def count(self) -> int:
        now = time.monotonic()
        if now - self._at > _COUNT_SECONDS:
            self._at = now
            with contextlib.suppress(StoryError):  # a file that cannot be read is said elsewhere
                self._words = self._session.story.today().words
        return self._words


def node_of(session: Session, index: int) -> NodeId | None:
    """The node of a branch of the round; None while it has none yet."""
    try:
        return session.round.node_of(index) if session.round is not None else None
    except IndexError:
        return None


def _likeness(current: Round, index: int) -> str:
    """Which branch it is nearly the same as; or that it was written anew, as it was."""
    found = current.duplicates
    if index in found.alike:
        return f"≈{found.alike[index] + 1}"
    return "≈" if found.renewed[index] else ""


def marks(session: Session, index: int, take: int | None = None) -> str:
    """The marks of a branch of the round in signs. ``take`` characters of it are to be picked, or all."""
    current = session.round
    if current is None:
        return ""
    if index >= len(current.branches) or not (node := node_of(session, index)):
        return ""
    try:
        found = session.story.marks(node)
    except NoSuchNode:  # the disk has just refused the transaction that made it
        return ""
    branch = current.branches[index]
    score = current.judgement.score(branch) if current.judgement is not None else None
    signs = (
        f"✓{score.mean * 100:.0f}" if score is not None and score.mean is not None else "",
        f"⌫{branch.bans}" if branch.bans else "",
        "forced" if index in current.forced else "",
        "locked" if index in current.locked else "",
        "★" if found.bookmark else "",
        {1: "good", -1: "bad"}.get(found.rating, ""),
        _likeness(current, index),
        _written_ahead(session.look_ahead.share(index, take)),
    )
    return " ".join(sign for sign in signs if sign)


def note(session: Session, index: int) -> str:
    """How probable the whole text of a branch is that was found by exploring."""
    share = session.round.probabilities.get(index) if session.round is not None else None
    return "" if share is None else odds_words(share)


def _written_ahead(share: float | None) -> str:
    """How much is written of what follows a pick."""
    if share is None:
        return ""
    return "»" if share == 1.0 else f"»{share:.0%}"
