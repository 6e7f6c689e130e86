"""Steering a single branch: a note or a wish for it alone.

All of it acts on the next token; other branches continue as before. A note and a wish are near the end of
the branch's own prompt, and are kept with its node of the story.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from srbwriter.engine.types import EngineError, NoRoom
from srbwriter.story import Refused
from srbwriter.story.context import place_near_end

from .instrument import Instrument
from .round import NOTE
from .scoring import tokens_with_text

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

    from .round import Round

log = logging.getLogger(__name__)

LEAST_ROOM = 128  # tokens that a branch can still write
_END_TOKENS = 512  # of a prompt, among which the place for a note is looked for


class Steering(Instrument):
    """Steers single branches. A branch that has ended follows when it is extended."""

    def round_begins(self, current: Round) -> None:
        """Steer branches of an earlier session as they were, once an engine has them again."""
        for index in {*current.notes, *current.wishes}:
            try:
                self._steer(current, index, current.notes.get(index, ""), current.wishes.get(index, ""))
            except EngineError as error:
                log.warning("branch %d does not follow its note: %s", index + 1, error)

    def note(self, index: int) -> str:
        """Return the note of branch ``index``."""
        return self._round.notes.get(index, "")

    @property
    def _round(self) -> Round:
        current = self._session.round
        if current is None:
            raise IndexError("there are no branches")
        return current

    def put_note(self, index: int, note: str) -> None:
        """Let branch ``index`` follow ``note`` from here on, instead of an earlier one; empty for none.

        The note stands before the last line of the prompt, for this branch alone. Raises NoRoom if the
        context is too small.
        """
        self._session.steered(index)
        current = self._round
        self._steer(current, index, " ".join(note.split()), current.wishes.get(index, ""))

    def reroll_with_wish(self, index: int, wish: str) -> None:
        """Write branch ``index`` again with ``wish`` near the end of its prompt; the others continue.

        Raises Refused if the text before the branches has changed, and NoRoom as for a note.
        """
        session = self._session
        if session.stale:
            raise Refused("the text before these branches has changed; ask for new branches")
        branch, current = session.steered(index), self._round
        self._steer(current, index, current.notes.get(index, ""), wish)
        branch.reroll(stop=session.stop_of_answer(branch.stop_rule))

    def _steer(self, current: Round, index: int, note: str, wish: str) -> None:
        """Give a branch its own prompt, with a note and a wish, or that of its round without both."""
        session, engine, branch = self._session, self._session.engine, current.branches[index]
        assert engine is not None
        prompt = branch.generation.prompt_ids
        if wish:
            segments = session.prompter.segments_of_wish(current.parent, wish)
            prompt = insert_near_end(engine, prompt, [t for segment in segments for t in segment.tokens])
        if note:
            prompt = insert_near_end(engine, prompt, engine.tokenize_continuation(f"{note}\n"))
        if len(prompt) + len(branch.buffer.ids) + LEAST_ROOM > engine.n_ctx:
            raise NoRoom("the context has no room for it; choose a shorter note, or a larger context")
        branch.set_prompt(prompt if wish or note else ())
        session.keep()  # its node may be new
        current.notes[index] = note
        if wish:
            current.wishes[index] = wish
        if index < len(current.tracks):
            current.story.put_meta(current.tracks[index].nodes[0][0], NOTE, note)


def insert_near_end(engine: Backend, ids: Sequence[int], inserted: Sequence[int]) -> tuple[int, ...]:
    """Return the prompt ``ids`` with ``inserted`` before its last line, or a sentence of a long one."""
    first = max(len(ids) - _END_TOKENS, int(engine.bos is not None and ids[:1] == (engine.bos,)))
    pieces = engine.pieces(ids[first:])
    starts = {t.start: t.at for t in reversed(tokens_with_text(ids[first:], pieces, first)) if not t.inside}
    text = b"".join(pieces).decode("utf-8", "replace")
    place = starts.get(place_near_end(text, starts.__contains__), len(ids))
    return (*ids[:place], *inserted, *ids[place:])
