"""The prefix tree against an obvious model: the set of all prefixes of all sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from srbwriter.engine.tree import SHARED, Demand, KVBlock, Namespace, Node, SnapshotTree, TokenTree
from srbwriter.engine.types import Priority
from tests.sizes import examples

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=6)
NAMESPACES = (SHARED, Namespace(0, "a", 0), Namespace(0, "a", 2), Namespace(0, "b", 2), Namespace(-1, "b", 4))

Labelled: TypeAlias = "tuple[tuple[int, Namespace], ...]"
"""A path whose tokens say which namespace they are found in."""


def labelled(ids: Sequence[int], namespace: Namespace) -> Labelled:
    return tuple(
        (token, namespace if namespace.salt and position >= namespace.start else Namespace(namespace.root))
        for position, token in enumerate(ids)
    )


def plain(path: Labelled) -> list[int]:
    return [token for token, _ in path]


class TokenTreeMachine(RuleBasedStateMachine):
    """Every rule is done to the tree and to plain lists; both must tell the same story."""

    @initialize()
    def start(self) -> None:
        self.tree = TokenTree(logits_budget=3)
        self.paths: dict[int, Labelled] = {}
        self.namespaces: dict[int, Namespace] = {}
        self.cells: dict[int, dict[int, object]] = {}  # sequence -> position -> identity of the cell
        self.rows: dict[Labelled, tuple[Namespace, object]] = {}  # namespaces may share a path
        self.wanted: dict[Demand, Labelled] = {}

    def path_to(self, node: Node) -> Labelled:
        return labelled(node.token_ids(), self.tree.namespace_of(node))

    def pick(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.paths)))

    @rule(ids=st.lists(st.integers(0, 2), max_size=12), namespace=st.sampled_from(NAMESPACES))
    def fork(self, ids: list[int], namespace: Namespace) -> None:
        seq = next(s for s in range(100) if s not in self.paths)
        found, path = self.tree.match_prefix(ids, namespace), labelled(ids, namespace)
        prefixes = {p[:n] for p in self.paths.values() for n in range(len(p) + 1)} | {()}
        longest = max(n for n in range(len(ids) + 1) if path[:n] in prefixes)
        assert found.length == longest
        source = self.tree.add_sequence(seq, self.tree.split(found.node, found.offset))
        self.paths[seq], self.namespaces[seq] = path[:longest], namespace
        self.cells[seq] = {} if source is None else {p: self.cells[source][p] for p in range(longest)}
        assert (source is None) == (longest == 0 and source is None)

    @precondition(lambda self: self.paths)
    @rule(data=st.data(), tokens=TOKENS)
    def advance(self, data: st.DataObject, tokens: list[int]) -> None:
        seq = self.pick(data)
        self.grow([seq], tokens)

    @precondition(lambda self: self.paths)
    @rule(data=st.data(), token=st.integers(0, 2))
    def advance_together(self, data: st.DataObject, token: int) -> None:
        seq = self.pick(data)
        here = self.paths[seq], self.namespaces[seq]
        self.grow([s for s, path in self.paths.items() if (path, self.namespaces[s]) == here], [token])

    def grow(self, seqs: list[int], tokens: list[int]) -> None:
        start, namespace = len(self.paths[seqs[0]]), self.namespaces[seqs[0]]
        path = labelled([*plain(self.paths[seqs[0]]), *tokens], namespace)
        fresh = {start + k: object() for k in range(len(tokens))}
        for seq in seqs:
            self.cells[seq].update(fresh)
            self.paths[seq] = path
        for merge in self.tree.advance(seqs, tokens, namespace).merges:
            for seq in seqs:
                for position in range(merge.start, merge.end):
                    self.cells[seq][position] = self.cells[merge.source][position]

    @precondition(lambda self: self.paths)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        seq = self.pick(data)
        end = data.draw(st.integers(0, len(self.paths[seq])))
        self.tree.truncate(seq, end)
        self.paths[seq] = self.paths[seq][:end]
        self.cells[seq] = {p: c for p, c in self.cells[seq].items() if p < end}

    @precondition(lambda self: self.paths)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        seq = self.pick(data)
        self.tree.remove_sequence(seq)
        del self.paths[seq], self.cells[seq], self.namespaces[seq]

    @precondition(lambda self: self.paths)
    @rule(data=st.data())
    def store_logits(self, data: st.DataObject) -> None:
        seq = self.pick(data)
        if self.paths[seq]:
            row = object()
            self.tree.store_logits(seq, row)
            self.rows[self.paths[seq]] = self.namespaces[seq], row

    @rule(ids=st.lists(st.integers(0, 2), min_size=1, max_size=9), namespace=st.sampled_from(NAMESPACES))
    def want(self, ids: list[int], namespace: Namespace) -> None:
        demand = Demand(Priority.NORMAL, namespace)
        self.tree.add_demand(demand, ids)
        self.wanted[demand] = labelled(ids, namespace)

    @precondition(lambda self: self.wanted)
    @rule(data=st.data(), token=st.integers(0, 2))
    def want_next(self, data: st.DataObject, token: int) -> None:
        demand = data.draw(st.sampled_from(list(self.wanted)))
        self.tree.extend_demand(demand, token)
        self.wanted[demand] = labelled([*plain(self.wanted[demand]), token], demand.namespace)

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def unwant(self, data: st.DataObject) -> None:
        demand = data.draw(st.sampled_from(list(self.wanted)))
        self.tree.remove_demand(demand)
        del self.wanted[demand]

    @invariant()
    def cells_are_the_distinct_prefixes(self) -> None:
        prefixes = {p[:n] for p in self.paths.values() for n in range(1, len(p) + 1)}
        assert self.tree.cells == len(prefixes)
        assert sum(len(n.tokens) for n in self.tree.nodes() if not n.absent) == len(prefixes)

    @invariant()
    def what_is_wanted_is_there_once(self) -> None:
        wanted = {p[:n] for p in self.wanted.values() for n in range(1, len(p) + 1)}
        held = {p[:n] for p in self.paths.values() for n in range(1, len(p) + 1)}
        assert sum(len(n.tokens) for n in self.tree.nodes() if n.absent) == len(wanted - held)
        for demand, path in self.wanted.items():
            assert demand.node is not None and demand in demand.node.demands
            assert self.path_to(demand.node) == path
        assert sum(len(n.demands) for n in self.tree.nodes()) == len(self.wanted)

    @invariant()
    def equal_prefixes_share_cells(self) -> None:
        by_prefix: dict[Labelled, object] = {}
        for seq, path in self.paths.items():
            for n in range(1, len(path) + 1):
                cell = self.cells[seq][n - 1]
                assert by_prefix.setdefault(path[:n], cell) is cell

    @invariant()
    def tips_and_nodes_agree(self) -> None:
        assert set(self.tree.tip) == set(self.paths)
        for seq, path in self.paths.items():
            assert not path or self.path_to(self.tree.tip[seq]) == path
        for node in self.tree.nodes():
            assert node.tokens
            assert node.tips <= node.seqs
            assert node.parent is not None and node.parent.children[node.key] is node
            assert node.seqs == {s for s, p in self.paths.items() if p[: node.end] == self.path_to(node)}
            assert all(child.parent is node for child in node.children.values())

    @invariant()
    def stored_rows_belong_to_their_prefix(self) -> None:
        assert self.tree.stored_rows <= 3
        for path, (namespace, row) in self.rows.items():
            found = self.tree.logits_after(plain(path), namespace)
            assert found is None or found is row


TestTokenTree = TokenTreeMachine.TestCase
TestTokenTree.settings = settings(max_examples=examples(150, few=20), stateful_step_count=30, deadline=None)


def test_only_anchors_are_found_for_memories_that_cannot_be_cut() -> None:
    tree = SnapshotTree()
    tree.add_sequence(0, tree.root())
    tree.advance([0], [1, 2, 3])
    assert tree.match_resumable([1, 2]).length == 0
    assert tree.match_resumable([1, 2, 3, 4]).length == 3
    tree.add_sequence(1, tree.tip[0])
    tree.advance([1], [4, 5])
    assert tree.match_resumable([1, 2, 3, 4, 6]).length == 3
    assert tree.match_resumable([1, 2, 3, 4, 5]).length == 5


def test_what_is_stored_below_something_lost_goes_and_what_is_wanted_there_stays() -> None:
    tree = TokenTree()
    upper = tree.add_block([1, 2], KVBlock(0, [1, 2], object(), 8))
    tree.add_block([1, 2, 3, 4], KVBlock(2, [3, 4], object(), 8))
    demand = Demand(Priority.NORMAL, SHARED)
    tree.add_demand(demand, [1, 2, 3, 5])
    assert tree.match_prefix([1, 2, 3, 5]).length == 3
    tree.drop_block(upper)
    assert tree.match_prefix([1, 2, 3, 4]).length == 0 == tree.stored_bytes
    assert demand.node is not None and demand.node.token_ids() == [1, 2, 3, 5]
    assert sum(len(node.tokens) for node in tree.nodes()) == 4
    tree.remove_demand(demand)
    assert list(tree.nodes()) == []


def test_the_oldest_parked_sequence_goes_first_and_spared_nodes_last() -> None:
    tree = TokenTree()
    for seq in range(3):
        tree.add_sequence(seq, tree.root())
        tree.advance([seq], [seq, 7])
        tree.mark_used(tree.tip[seq])
    assert tree.least_recent([0, 1, 2]) == 0
    spared: list[Node] = [tree.tip[0]]
    assert tree.least_recent([0, 1, 2], spared) == 1
    assert tree.least_recent([]) is None
