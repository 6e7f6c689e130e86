"""The words of the status line, from the session's state.

Knows what a session says about itself; knows no widget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui.widgets.status_line import bar

if TYPE_CHECKING:
    from srbwriter.session import Session


def left(session: Session) -> tuple[str, ...]:
    """Model, context and speed, most wanted first."""
    if session.engine_state in ("INIT", "LOADING"):
        share = session.load_progress
        return (f"loading the model {bar(share)} {share:4.0%}",)
    if session.engine_state == "FAILED":
        return (f"no model: {session.engine_error}",)
    parts = [session.model.name if session.model is not None else "no model"]
    stats = session.engine_stats()
    if stats.total_cells:
        parts.append(f"context {stats.used_cells}/{stats.total_cells}")
    current = session.round
    if current is not None:
        speed = sum(branch.tokens_per_second for branch in current.branches if branch.live)
        if speed:
            parts.append(f"{speed:.0f} tok/s")
        generation = current.generation
        if generation is not None and generation.prompt_ids:
            total, cached = len(generation.prompt_ids), generation.cached_tokens
            parts.append(f"prompt {total} = {cached} kept + {total - cached} read")
    return tuple(parts)


def right(session: Session, goal: int) -> tuple[str, ...]:
    """Whether the words are safe, how many there are, and how far today's goal is."""
    today = f"{session.words_today}/{goal} today" if goal else f"{session.words_today} today"
    return (session.save_state, f"{session.words} words", today, f"N {session.n}")


def marks(session: Session, index: int) -> str:
    """The marks of a branch of the round in signs."""
    current = session.round
    if current is None:
        return ""
    found = session.story.marks(current.node_of(index))
    signs = (
        "locked" if index in current.locked else "",
        "★" if found.bookmark else "",
        {1: "good", -1: "bad"}.get(found.rating, ""),
    )
    return " ".join(sign for sign in signs if sign)
