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


def right(session: Session) -> tuple[str, ...]:
    """Whether the words are safe, and how many there are."""
    return (session.save_state, f"{session.words} words", f"N {session.n}")
