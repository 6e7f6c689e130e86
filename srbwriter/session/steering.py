"""Steering a single branch: a note for it alone, and to end with its sentence.

All of it acts on the next token; other branches go on as before. What a branch is steered by is kept with its
node of the story. Imports no screen.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

from srbwriter.engine.types import NoRoom, Stop
from srbwriter.prose import sentence_ends
from srbwriter.story import NodeId, StoryError
from srbwriter.story.model import JsonObject, JsonValue, as_object

from .instrument import Desk, Instrument
from .rounds import STEERED

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.generation import Branch, Buffer

    from .rounds import Round

log = logging.getLogger(__name__)

SENTENCE_TOKENS = 128
"""Tokens after which a branch ends that was to end with its sentence, if the sentence goes on."""
_LINE_TOKENS = 512  # from the prompt's end, among which its last line is looked for


@dataclass(slots=True)
class _Steered:
    """What a branch is steered by.

    Attributes:
        note: the note that it has, or was to have.
        follows: whether the engine knows the note.
        asked_to_end: whether it was to end with its sentence.
        end: its stop rule until it has ended so.
        before: the stop rule that it has again then.
        listens: whether its end is noticed.
        kept_for: the version of the branch with whose node this is kept.
    """

    note: str = ""
    follows: bool = False
    asked_to_end: bool = False
    end: Stop | None = None
    before: Stop | None = None
    listens: bool = False
    kept_for: Buffer | None = None

    def read(self, meta: Mapping[str, JsonValue]) -> None:
        """Take over what is kept in the ``meta`` of a node."""
        match as_object(meta.get(STEERED)):
            case {"note": str(note)}:
                self.note = note
            case _:
                pass

    def as_json(self) -> JsonObject:
        """Return what is kept of it in the ``meta`` of a node."""
        return {"note": self.note, "end": "sentence" if self.asked_to_end else None}


class Steering(Instrument):
    """Steers single branches. A branch that has ended follows when it is extended."""

    name: ClassVar[str] = "steering"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._steered: WeakKeyDictionary[Branch, _Steered] = WeakKeyDictionary()

    def round_begins(self, current: Round) -> None:
        """Steer branches of an earlier session as they were, once an engine has them again."""
        for index in range(len(current.tracks)):
            steered = self._of(current, index)
            if steered.note:
                self.later(partial(self._put_note, current, index))

    # ---- what a branch is steered by

    def note(self, index: int) -> str:
        """Return the note of branch ``index``."""
        return self._of(self._round, index).note

    def words(self, index: int) -> list[str]:
        """Return what branch ``index`` is steered by, in a few words each."""
        current = self._round
        steered, words = self._of(current, index), list[str]()
        if steered.note and (steered.follows or not current.taken_up):
            words.append("note")
        if steered.end is not None:
            words.append("last sentence")
        return words

    @property
    def _round(self) -> Round:
        current = self._desk.round
        if current is None:
            raise IndexError("there are no branches")
        return current

    def _of(self, current: Round, index: int) -> _Steered:
        """Return what branch ``index`` is steered by; from its node if an earlier session wrote it."""
        branch = current.branches[index]
        found = self._steered.get(branch)
        if found is None:
            found = self._steered[branch] = _Steered()
            if index < len(current.tracks):
                found.kept_for = branch.buffer
                with suppress(StoryError):
                    found.read(current.story.node(_node(current, index)).meta)
        return found

    # ---- a note

    def put_note(self, index: int, note: str) -> Future[None]:
        """Let branch ``index`` follow ``note`` from here on, instead of an earlier one; empty for none.

        The note stands before the last line of the prompt, for this branch alone. The future ends once the
        engine has it, or with NoRoom if the context is too small; the note is kept all the same.
        """
        current = self._round
        note = " ".join(note.split())
        self._of(current, index).note = note
        return self.later(lambda: self._put_note(current, index, note))

    def _put_note(self, current: Round, index: int, note: str | None = None) -> None:
        """Give a branch its note, or ``note`` instead; not if the writer has left the round."""
        desk, shown = self._desk, current
        try:
            branch = desk.steered(index)  # of an earlier session: an engine has it from now on
            shown, engine = self._round, desk.engine
            if shown.identity is not current.identity or engine is None:
                shown = current
                return
            steered = self._listen(shown, index)
            steered.note = steered.note if note is None else note
            prompt = with_note(engine, branch.generation.prompt_ids, steered.note) if steered.note else ()
            if prompt and len(prompt) + len(branch.buffer.ids) + SENTENCE_TOKENS > engine.n_ctx:
                raise NoRoom("the context has no room for it; choose a shorter note, or a larger context")
            desk.steer(index, "set_prompt", prompt=prompt)
            steered.follows = bool(prompt)
        finally:
            self._keep(shown, index)

    # ---- the end

    def end(self, index: int) -> None:
        """Let branch ``index`` end with its sentence; one that has ended goes on until there.

        When it has ended, its own stop rule holds again. Raises ValueError for a branch that has ended with a
        sentence already.
        """
        desk = self._desk
        branch = desk.steered(index)
        text, written = branch.text, len(branch.buffer.ids)
        if not branch.live and sentence_ends(text)[-1:] == [len(text.rstrip())]:
            raise ValueError(f"Branch {index + 1} has ended with a sentence already.")
        current = self._round
        steered = self._listen(current, index)
        before = steered.before or branch.stop_rule
        most = written + SENTENCE_TOKENS if desk.capabilities.has("token_ids") else before.max_tokens
        stop = replace(before, boundary="sentence", min_tokens=0, max_tokens=most)
        steered.asked_to_end, steered.end, steered.before = True, stop, before
        desk.steer(index, "extend", stop=stop)
        self.later(partial(self._keep, current, index))

    # ---- after it has ended

    def _listen(self, current: Round, index: int) -> _Steered:
        """Return what a branch is steered by; its end is noticed from now on."""
        branch, steered = current.branches[index], self._of(current, index)

        def look() -> None:  # on the engine's thread
            if branch.live:
                return
            done = steered.end is not None and branch.stop_rule is steered.end
            if done and steered.before is not None:
                branch.change(stop=steered.before)
                steered.end = steered.before = None
            if steered.kept_for is not branch.buffer:  # the branch went back: another node has its text
                self.later(partial(self._keep, current, index))

        if not steered.listens:
            steered.listens = True
            branch.generation.add_listener(look)
        return steered

    def _keep(self, current: Round, index: int) -> None:
        """Keep with its node what a branch is steered by, now and when it ends in another node."""
        branch, steered = current.branches[index], self._of(current, index)
        try:
            if index >= len(current.tracks) or steered.kept_for is not branch.buffer:
                self._desk.keep()  # its node may be new
            current.story.put_meta(_node(current, index), STEERED, steered.as_json())
        except StoryError as error:  # it is steered all the same
            log.warning("what a branch is steered by is not saved: %s", error)
        else:
            steered.kept_for = branch.buffer


def _node(current: Round, index: int) -> NodeId:
    """Return the node in which a branch begins."""
    return current.tracks[index].nodes[0][0]


def with_note(engine: Backend, ids: Sequence[int], note: str) -> tuple[int, ...]:
    """Return the prompt ``ids`` with ``note``, a line of its own, before its last line.

    If that begins more than :data:`_LINE_TOKENS` tokens before the end, the note stands there.
    """
    begun = int(engine.bos is not None and ids[:1] == (engine.bos,))
    place = first = max(len(ids) - _LINE_TOKENS, begun)
    line, seen = ("\n" if first > begun else "") + note + "\n", False
    pieces = engine.pieces(ids[first:])
    for k in range(len(pieces) - 1, -1, -1):
        if seen and pieces[k].endswith(b"\n"):
            place, line = first + k + 1, note + "\n"
            break
        seen = seen or bool(pieces[k].strip())
    return (*ids[:place], *engine.tokenize_continuation(line), *ids[place:])
