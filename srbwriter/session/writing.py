"""The text of a session: typing, undo, moving through the tree, and the model's context.

Notes and memory are settings of the story, which change by :meth:`Writing.together` as by any verb.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from srbwriter.story import NodeId, ReadOnlyStory, Refused

from . import typing
from .asking import Rounds
from .picking import cut
from .prompting import Context
from .rounds import Round
from .undoing import name_action

Result = TypeVar("Result")

_LAST_SECONDS = 0.25  # seconds for a running step of the engine when the system ends the program


class Writing(Rounds):
    """Verbs for the story of a session."""

    rescued: typing.Rescued | None

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
        """Whether typed words are saved; see :class:`~srbwriter.session.typing.SaveState`."""
        return "read only" if self.story.read_only is not None else str(self.typing.state)

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
        """Change the text to ``text``; it is on the disk when this returns."""
        if self.story.read_only is not None:
            raise ReadOnlyStory(self.story.read_only)
        self.typing.text(text)
        self.keep()

    def draft(self, sheet: str) -> typing.Draft:
        """Return the draft that saves the words of the sheet called ``sheet``."""
        return typing.Draft(self.typing, self.story, sheet)

    def take_rescued(self) -> None:
        """Restore :attr:`rescued` into the story and its sheets. Raises StoryError."""
        with self._lock:
            if (found := self.rescued) is not None:
                self.together(lambda: found.take(self.story))
                found.clear()
                self.rescued = None

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
