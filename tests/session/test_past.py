"""Going back and forth between rounds: what is shown belongs to where the writer stands."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from srbwriter.engine.engine import Engine
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import NoModel, Stop
from srbwriter.session import Session
from srbwriter.story import NodeId, Story
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model
from tests.sizes import examples

from .conftest import OPTIONS
from .test_session import OPENING, written


def test_a_recalled_branch_that_writes_again_is_kept(session: Session) -> None:
    session.set_text(OPENING)
    first = session.generate()
    written(session, first)
    session.pick(0)
    written(session, session.generate())
    session.undo()
    session.steer(3, "reroll")
    written(session, first)
    assert session.story.text(first.node_of(3)) == OPENING + first.branches[3].text


def test_a_branch_whose_beginning_was_undone_brings_it_back_for_good(file: Path, session: Session) -> None:
    session.set_text(OPENING)
    session.story.end_typing()
    session.set_text(OPENING + " The cat sat.")
    first = session.generate()
    written(session, first)
    node = first.node_of(2)
    session.undo()
    assert session.text() == OPENING
    session.story.pick(node)  # as the tree or a program may
    wanted = session.text()
    assert wanted == OPENING + " The cat sat." + first.branches[2].text
    session.close()
    with Story.open(file) as story:
        assert story.text(story.current) == wanted
        story.undo()
        assert story.text(story.current) == OPENING


class Wanderings(RuleBasedStateMachine):
    """A writer types, writes, picks, undoes and walks about, and reads the same words after reopening."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "story.srbw"
        self.open(Story.create(self.file))
        self.session.set_text(OPENING)
        self.count = 0

    def open(self, story: Story) -> None:
        self.session = Session(
            story, EngineLoader(short_model(), OPTIONS, self.load), n=2,
            stop=Stop(max_tokens=4, ignore_eog=True), options=OPTIONS,
        )  # fmt: skip
        self.session.loader.wait(60)
        while self.session._prompter is None:
            pass

    @staticmethod
    def load(path: object, options: object, /, *, on_progress: object) -> Engine:
        return load_engine(path, options, on_progress=on_progress, thread=False)  # type: ignore[arg-type]

    def run(self) -> None:
        engine = self.session.engine
        while engine.process():
            pass
        self.session.keep()

    @rule()
    def type_at_the_end(self) -> None:
        self.count += 1
        self.session.set_text(f"{self.session.text()} w{self.count}.")
        self.session.story.end_typing()

    @rule(at=st.integers(0, 10**6))
    def type_in_the_middle(self, at: int) -> None:
        text = self.session.text()
        self.count += 1
        at %= len(text) + 1
        self.session.set_text(f"{text[:at]} w{self.count}.{text[at:]}")
        self.session.story.end_typing()

    @rule()
    def write(self) -> None:
        self.session.generate()
        self.run()

    @precondition(lambda self: self.session.round is not None)
    @rule(index=st.integers(0, 1), part=st.booleans())
    def pick(self, index: int, part: bool) -> None:
        current = self.session.round
        if index >= len(current.branches):  # the rest of a pick stands here alone
            return
        before, shown = self.session.text(), current.branches[index].text
        if part:
            shown = shown[: max(1, len(shown) // 2)]
        if not shown:
            return
        joined, whole = self.session.joined(index), current.branches[index].text
        if joined.endswith(whole):
            expected = joined.removesuffix(whole) + shown  # the space behind typed words
        else:  # the text ends with a space already, such as behind a part of another branch
            assert before[-1].isspace() and joined == whole.lstrip(" ")
            expected = shown.lstrip(" ")
        self.session.pick(index, len(shown))
        assert self.session.text() == before + expected

    @rule()
    def undo(self) -> None:
        self.session.undo()
        self.only_branches_of_here()
        self.run()

    @rule()
    def redo(self) -> None:
        self.session.redo()
        self.only_branches_of_here()
        self.run()

    @rule(pick=st.integers(0, 10**6))
    def go_elsewhere(self, pick: int) -> None:
        story = self.session.story
        nodes = list(story.reading_order())
        self.session.revisit(nodes[pick % len(nodes)])
        self.only_branches_of_here()

    @rule()
    def reopen(self) -> None:
        text = self.session.text()
        self.session.close()
        self.open(Story.open(self.file))
        assert self.session.text() == text

    def only_branches_of_here(self) -> None:
        story, shown = self.session.story, self.session.round
        node: NodeId | None = story.current
        while shown is not None and node != shown.parent:  # what was typed beside them stands behind
            assert node is not None and story.node(node).author == "writer"
            node = story.parent(node)

    @invariant()
    def one_stands_in_the_living_tree(self) -> None:
        assert self.session.story.is_living(self.session.story.current)

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.session.close()
            self.folder.cleanup()


TestWanderings = pytest.mark.slow(Wanderings.TestCase)
TestWanderings.settings = settings(
    max_examples=examples(25), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_a_reopened_story_shows_what_was_written_where_it_was_left(file: Path, session: Session) -> None:
    session.set_text(OPENING)
    first = session.generate()
    written(session, first)
    texts = [branch.text for branch in first.branches]
    session.close()
    loader = EngineLoader(short_model(), OPTIONS)
    again = Session(Story.open(file), loader, n=2, stop=Stop(max_tokens=4), options=OPTIONS)
    try:
        shown = again.round
        assert [branch.text for branch in shown.branches] == texts
        assert not any(branch.live for branch in shown.branches)
        with pytest.raises(NoModel, match="still loading"):
            again.steer(1, "extend")
        again.loader.wait(60)
        again.pick(2, 5)
        assert again.text() == OPENING + texts[2][:5]
        assert len(again.story) == len(texts) + 3  # root, opening, and the rest of what was picked from
        again.undo()
        assert again.round is shown
        written(again, again.generate())
        assert again.round is not shown
    finally:
        again.close()
