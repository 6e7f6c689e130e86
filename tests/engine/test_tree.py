"""The token tree against the simplest model of it: the texts that sequences hold."""

from __future__ import annotations

from types import SimpleNamespace

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from srbwriter.engine.tree import Namespace, State, TokenTree

TOKENS = st.lists(st.integers(1, 3), min_size=1, max_size=6)
SPACES = st.sampled_from([Namespace(), Namespace(salt="a")])


class TreeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tree = TokenTree(rows=3)
        self.held: dict[int, tuple[Namespace, list[int]]] = {}
        self.numbers = iter(range(10**6))

    def any(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.held)))

    @rule(ids=TOKENS, space=SPACES, most=st.integers(0, 9))
    def fork(self, ids: list[int], space: Namespace, most: int) -> None:
        node = self.tree.resumable(ids, space, most)
        assert node.end == min(self.tree.match(ids, space)[1], most) and node.token_ids() == ids[: node.end]
        if node.seqs or node.parent is None:
            seq = next(self.numbers)
            self.tree.attach_sequence(seq, node)
            self.held[seq] = space, ids[: node.end]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), tokens=TOKENS, written=st.booleans())
    def advance(self, data: st.DataObject, tokens: list[int], written: bool) -> None:
        seq = self.any(data)
        space, ids = self.held[seq]
        new = tokens[:1] if written else tokens
        if not (written and self.tree.append(seq, new[0])):
            for source, start, end in self.tree.advance((seq,), new, written):
                other = self.held[source]
                assert source != seq and other[0] == space and other[1][:end] == [*ids, *new][:end]
                assert len(ids) <= start < end
        self.held[seq] = space, ids + new

    @precondition(lambda self: self.held)
    @rule(data=st.data(), end=st.integers(0, 12))
    def truncate(self, data: st.DataObject, end: int) -> None:
        seq = self.any(data)
        space, ids = self.held[seq]
        self.tree.truncate(seq, end)
        self.held[seq] = space, ids[:end]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        seq = self.any(data)
        self.tree.remove_sequence(seq)
        del self.held[seq]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), drops=st.booleans())
    def store(self, data: st.DataObject, drops: bool) -> None:
        node = self.tree.tip[self.any(data)]
        for part in node.path_up():
            if drops and part.state is not None:
                self.tree.drop_state(part)
            elif not drops and part.state is None:
                data_of = SimpleNamespace(size=len(part.tokens))
                self.tree.set_state(part, State(part.start, part.tokens, data_of))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def keep_logits(self, data: st.DataObject) -> None:
        seq = self.any(data)
        space, ids = self.held[seq]
        self.tree.store_logits(seq, "row")
        assert not ids or self.tree.logits_after(ids, space) == "row"
        assert self.tree.stored_rows <= 3

    @invariant()
    def it_knows_what_is_held(self) -> None:
        tree = self.tree
        cells = {(space, *ids[:end]) for space, ids in self.held.values() for end in range(1, len(ids) + 1)}
        assert tree.cells == len(cells)
        for seq, (space, ids) in self.held.items():
            assert tree.tip[seq].token_ids() == ids
            assert tree.match([*ids, 9], space)[1] >= len(ids)
        stored = {id(node.state): node.state for node in tree.nodes() if node.state is not None}
        assert tree.stored_bytes == sum(state.size for state in stored.values())
        for node in tree.nodes():
            assert node.seqs or node.state is not None, "nothing is kept for nobody"
            assert node.seqs == {s for s in node.seqs if s in self.held} and node.tokens
            assert node.parent is None or not node.seqs or node.parent.seqs >= node.seqs

    @invariant()
    def idle_cells_are_counted(self) -> None:
        idle = set(sorted(self.held)[::2])
        live = {
            (space, *ids[:end])
            for seq, (space, ids) in self.held.items() if seq not in idle
            for end in range(1, len(ids) + 1)
        }  # fmt: skip
        assert self.tree.count_idle_cells(idle) == self.tree.cells - len(live)


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
