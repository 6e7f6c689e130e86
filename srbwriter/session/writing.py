"""The text of a session: typing, undo, moving through the tree, and the model's context.

Notes and memory are settings of the story, which change by :meth:`Writing.together` as by any verb.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from srbwriter.story import Edit, NodeId, Refused

from .asking import Rounds
from .drafts import Draft
from .picking import cut
from .prompting import Context
from .rounds import Round
from .undoing import name_action

Result = TypeVar("Result")

_LAST_SECONDS = 0.25  # seconds for a running step of the engine when the system ends the program


class Writing(Rounds):
    """Verbs for the story of a session."""

    @property
    def node(self) -> NodeId:
        return self.story.current

    @property
    def title(self) -> str:
        return self.story.title

    @property
    def words(self) -> int:
        """The number of words up to the current node."""
        return self.story.words(self.story.current)

    @property
    def save_state(self) -> str:
        """Whether everything is on the disk, in a word or two."""
        return "read only" if self.story.read_only is not None else str(self.story.save_state)

    def text(self) -> str:
        """The text from the beginning to the current node."""
        return self.story.text(self.story.current)

    def context(self) -> Context:
        """Return the sizes of the model's context at the current node. Empty before a model is loaded."""
        with self._lock:
            if self._prompter is None:
                return Context([], 0, 0)
            return self._prompter.account(self.story.current, self.stop)

    # ---- words

    def set_text(self, text: str) -> None:
        """Change the text to ``text``."""
        self._typed(lambda: self.story.set_text(text))

    def edit(self, *edits: Edit) -> None:
        """Change the text by ``edits``, which are in order and disjoint, with places of the text before.

        They are on the disk within a second. With them is the place of the cursor, behind the last one.
        """
        if not edits:
            return
        shift = sum(len(e.text) - (e.end - e.start) for e in edits[:-1])
        cursor = edits[-1].start + shift + len(edits[-1].text)

        def act() -> None:
            self.story.replace(*edits)
            if self.view:
                self.keep_view(self.view | {"cursor": cursor})
                self._workspace.write()

        with self.story.together():
            self._typed(act)

    def _typed(self, act: Callable[[], object]) -> None:
        act()
        self.typed += 1
        self._picking.text_may_differ()
        for instrument in self.instruments.values():
            instrument.text_changed()

    def draft(self, sheet: str) -> Draft:
        """Return the draft that keeps the words of the sheet called ``sheet``."""
        return Draft(self.story, sheet)

    # ---- verbs

    def together(self, act: Callable[[], Result]) -> Result:
        """Run ``act``, a verb of the story, in one transaction with everything typed before it."""
        try:
            return self._in_story(act)
        finally:
            self._text_changed()

    def keep_last(self, act: Callable[[], object]) -> None:
        """Stop the branches; save all text and the change of ``act`` in one transaction.

        Raises StoryError as :meth:`keep` does.
        """
        self.leave_round(act, _LAST_SECONDS)
        self.story.flush()

    def undo(self) -> str:
        """Undo the last pick, edit or verb; return its name, empty if there is none."""
        before, action = self.round, self._moved(lambda: self.leave_round(self.story.undo))
        return name_action(action, before, self.round) if action is not None else ""

    def redo(self) -> str:
        """Redo the last undone action; return its name, empty if there is none."""
        before, action = self.round, self._moved(lambda: self.together(self.story.redo))
        return name_action(action, before, self.round) if action is not None else ""

    def revisit(self, node: NodeId) -> None:
        """Move to another node; the cached tokens of its path are not evaluated again."""
        self._moved(lambda: self.leave_round(lambda: self.story.visit(node)))

    def _moved(self, act: Callable[[], Result]) -> Result:
        """Run ``act``, which may move to another node, and show the branches generated there."""
        with self._lock:
            done = act()
            self.recall()
            return done

    def move_chapter(self, place: int, *, later: bool) -> int:
        """Move the chapter that holds character ``place`` of the text; see :meth:`Story.move_chapter`.

        Branches stop first. Returns the character at which the chapter starts now.
        """
        return self._moved(lambda: self.leave_round(lambda: self.story.move_chapter(place, later=later)))

    def write_from(self, place: int) -> Round:
        """Generate branches from character ``place`` of the text; the text behind it becomes another branch.

        Raises Refused at the beginning, where there is no text to continue.
        """
        self.may_write()
        with self._lock:
            self.leave_round(lambda: self.cut_at(place))
            return self._ask(self.n)

    def cut_at(self, place: int) -> NodeId:
        """Move to character ``place`` of the text, within a transaction; the rest becomes a branch."""
        node = cut(self.story, place)[0]
        self.story.visit(node)
        return node

    def split_at(self, place: int) -> NodeId:
        """Split the node with character ``place`` of the text; return the second part.

        Raises Refused if a node ends there already.
        """
        with self._lock:
            before, after = self.together(lambda: cut(self.story, place))
            if after is None:
                raise Refused(f"node {before} ends here; there is nothing to split")
            return after
