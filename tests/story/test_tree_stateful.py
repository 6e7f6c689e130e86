"""Random verbs on a story: no word is lost, undo and redo are exact, the file is the tree."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from srbwriter.story import ROOT, Edit, Refused, Story
from srbwriter.story.model import NodeId, State
from srbwriter.story.words import count
from tests.story.branches import set_text
from tests.story.machine import StoryMachine

WORDS = st.text(alphabet="ab .\n—é😀", min_size=1, max_size=12)
PICKS = st.integers(min_value=0, max_value=10_000)


def sizes(vocab: str, ids: Any) -> list[int] | None:
    """The test vocabulary: token n is n % 3 characters long (0 stands for half a character)."""
    return [n % 3 for n in ids] if vocab == "sized" else None


def snapshot(story: Story) -> dict[str, Any]:
    """Everything a reader can see."""
    order = list(story.reading_order())
    nodes = story.nodes(order)
    return {
        "nodes": [(n.id, n.parent, n.spans, n.author, n.finish_reason, n.sampling) for n in nodes],
        "marks": [(n.bookmark, n.tags, n.note, n.title, n.state) for n in nodes],
        "texts": [story.text(n) for n in order],
    }


class Writing(StoryMachine):
    """Verbs that never change words on purpose: typing, taking, forking, moving, marking."""

    token_sizes = staticmethod(sizes)

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[NodeId, str] = {}  # generated node → the text it was generated after
        self.whole: dict[NodeId, str] = {}  # finished branch → its own text
        self.written: dict[NodeId, str] = {}  # branch in work → what it wrote
        self.known: dict[int, tuple[int, dict[str, Any]]] = {}
        self.epoch = 0  # changes outside history

    def a_node(self, pick: int) -> NodeId:
        """A living node; 0, which is drawn most, is the newest and never the root if there is another."""
        return sorted(self.story.reading_order())[-1 - pick % len(list(self.story.reading_order()))]

    @property
    def streaming(self) -> list[NodeId]:
        return [node.id for node in self.story if node.streaming is not None]

    def stand_at(self, node: NodeId) -> None:
        if node != self.story.current:
            self.story.visit(node)

    def acted(self) -> None:
        self.known[self.story.last_action] = (self.epoch, snapshot(self.story))

    def outside(self) -> None:
        self.epoch += 1

    @initialize()
    def some_branches(self) -> None:
        """So that every verb has something to work on from the first step."""
        self.append(0, "He ran. ")
        self.begin(0, 2, True)
        for branch in (0, 1):
            self.stream(branch, [1, 2, 5, 4, 2])

    # -- words -------------------------------------------------------------------------------------

    @rule(pick=PICKS, text=WORDS)
    def append(self, pick: int, text: str) -> None:
        node = self.a_node(pick)
        if node in self.streaming:
            return
        full = self.story.text(node)
        self.stand_at(node)
        made = self.story.append(text)
        assert self.story.text(made) == full + text
        assert self.story.current == made
        self.acted()

    @rule()
    def pause(self) -> None:
        self.story.end_typing()

    # -- streams -----------------------------------------------------------------------------------

    @rule(pick=PICKS, n=st.integers(1, 3), sized=st.booleans())
    def begin(self, pick: int, n: int, sized: bool) -> None:
        node = self.a_node(pick)
        if node in self.streaming:
            return
        vocab = "sized" if sized else "other"
        for _ in range(n):
            name = self.story.begin_branch(node, model="m", vocab=vocab, sampling={"top_k": n})
            self.before[name] = self.story.text(node)
            self.written[name] = ""
        self.outside()

    @rule(pick=PICKS, ids=st.lists(st.integers(0, 9), min_size=1, max_size=8))
    def stream(self, pick: int, ids: list[int]) -> None:
        live = self.streaming
        if not live:
            return
        name = live[pick % len(live)]
        text = "".join("xy"[: n % 3] for n in ids)
        self.story.stream(name, text, ids, [-float(n) for n in ids])
        if name in self.written:
            self.written[name] += text
        self.outside()

    @rule(pick=PICKS)
    def finish(self, pick: int) -> None:
        live = self.streaming
        if live:
            name = live[pick % len(live)]
            self.story.finish(name, "length")
            if name in self.written:
                self.whole[name] = self.written.pop(name)
            self.outside()

    # -- the tree ----------------------------------------------------------------------------------

    @rule(pick=PICKS, at=st.none() | st.integers(1, 6), running=st.booleans())
    def take(self, pick: int, at: int | None, running: bool) -> None:
        node = self.a_node(pick)
        live = [node for node in self.streaming if self.story.is_living(node)]
        if running and live:
            node = live[pick % len(live)]
            self.finish(self.streaming.index(node))  # as a session does before a pick
        if node in self.streaming:
            return
        text = self.story.node(node).text
        if at is not None and at > len(text):
            return
        context = self.story.text(node)[: len(self.story.text(node)) - len(text)]
        self.story.pick(node, at)
        assert self.story.text(self.story.current) == context + (text if at is None else text[:at])
        self.acted()

    @rule(pick=PICKS)
    def delete(self, pick: int) -> None:
        node = self.a_node(pick)
        if node != ROOT:
            self.story.delete(node)
            assert not self.story.is_living(node) and node in self.story.bin()
            self.acted()

    @rule(pick=PICKS)
    def restore(self, pick: int) -> None:
        binned = self.story.bin()
        if binned:
            node = binned[pick % len(binned)]
            self.story.restore(node)
            assert self.story.is_living(node)
            self.acted()

    # -- marks -------------------------------------------------------------------------------------

    @rule(pick=PICKS, bookmark=st.booleans())
    def mark(self, pick: int, bookmark: bool) -> None:
        node = self.a_node(pick)
        head = self.story.last_action
        self.story.mark(node, bookmark=bookmark)
        assert self.story.node(node).bookmark == bookmark
        if self.story.last_action != head:
            self.acted()

    @rule(pick=PICKS)
    def visit(self, pick: int) -> None:
        self.story.visit(self.a_node(pick))

    # -- history and the file ----------------------------------------------------------------------

    @rule(times=st.integers(1, 8))
    def back_and_forth(self, times: int) -> None:
        before, current = snapshot(self.story), self.story.current
        done = 0
        while done < times and self.story.undo() is not None:
            done += 1
            self.as_remembered()
        for _ in range(done):
            assert self.story.redo() is not None
            self.as_remembered()
        assert snapshot(self.story) == before
        assert self.story.current == current

    @rule(times=st.integers(1, 4))
    def undo(self, times: int) -> None:
        for _ in range(times):
            if self.story.undo() is not None:
                self.as_remembered()

    @rule()
    def redo(self) -> None:
        if self.story.redo() is not None:
            self.as_remembered()

    def as_remembered(self) -> None:
        epoch, seen = self.known.get(self.story.last_action, (-1, {}))
        if epoch == self.epoch:
            assert snapshot(self.story) == seen

    @rule()
    def reload(self) -> None:
        for name in self.streaming:
            self.story.finish(name, "closed")
            if name in self.written:
                self.whole[name] = self.written.pop(name)
            self.outside()
        before, current = snapshot(self.story), self.story.current
        self.open_again()
        assert snapshot(self.story) == before
        assert self.story.current == current

    # -- always ------------------------------------------------------------------------------------

    @invariant()
    def generated_text_stands_where_it_stood(self) -> None:
        kept = [node for node in self.story if node.state != State.ABSORBED]
        everything = [self.story.text(node.id) for node in kept]
        for node, context in self.before.items():
            found = self.story.node(node)
            if found.state != State.ABSORBED:
                assert self.story.text(found.parent or ROOT) == context
            if node in self.whole:
                assert any(text.startswith(context + self.whole[node]) for text in everything)
            elif node in self.written:
                assert self.story.text(node) == context + self.written[node]

    @invariant()
    def words_are_counted_exactly(self) -> None:
        here = self.story.current
        assert self.story.words(here) == count(self.story.text(here)).words

    @invariant()
    def current_is_living(self) -> None:
        assert self.story.is_living(self.story.current)

    @invariant()
    def spans_say_the_text(self) -> None:
        here = self.story.current
        nodes = self.story.nodes(self.story.path(here))
        assert "".join(span.text for node in nodes for span in node.spans) == self.story.text(here)


class Editing(Writing):
    """The same with the text changed anywhere, also where others hang below."""

    @rule(pick=PICKS, start=PICKS, length=st.integers(0, 12), words=WORDS | st.just(""))
    def change(self, pick: int, start: int, length: int, words: str) -> None:
        node = self.a_node(pick)
        old = self.story.text(node)
        start %= len(old) + 1
        text = old[:start] + words + old[start + length :]
        try:
            self.stand_at(node)
            end = set_text(self.story, text)
        except Refused:
            assert self.streaming  # only what is being written takes no words
            return
        assert self.story.text(end) == text
        if text != old:
            assert self.story.current == end
            self.acted()

    @rule(pick=PICKS, places=st.lists(PICKS, min_size=2, max_size=6), words=st.lists(WORDS | st.just("")))
    def change_several(self, pick: int, places: list[int], words: list[str]) -> None:
        self.stand_at(self.a_node(pick))
        text = old = self.story.text(self.story.current)
        ends = sorted(place % (len(old) + 1) for place in places)
        edits = [Edit(*row) for row in zip(ends[::2], ends[1::2], words, strict=False)]
        for start, end, new in reversed(edits):
            text = text[:start] + new + text[end:]
        try:
            self.story.replace(*edits)
        except Refused:
            assert self.streaming
            return
        assert self.story.text(self.story.current) == text
        if text != old:
            self.acted()

    def generated_text_stands_where_it_stood(self) -> None:
        """Not here: the writer asked for another text before it. Its own words stay."""
        everything = [self.story.text(node.id) for node in self.story if node.state != State.ABSORBED]
        for node, words in self.whole.items():
            assert any(words in text for text in everything), (node, words)


TestWriting = Writing.TestCase
TestEditing = Editing.TestCase
TestWriting.settings = TestEditing.settings = settings(
    max_examples=8,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
