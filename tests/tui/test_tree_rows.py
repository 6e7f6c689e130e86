"""The tree as lines: every living node is reachable, the way is straight, folds count right."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srbwriter.story import ROOT, NodeId, Story
from srbwriter.tui.tree.view import rows
from tests.story.branches import added
from tests.tui.conftest import OpenBench


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trees")


def grown(folder: Path, parents: list[int], here: int) -> Story:
    """A story whose n-th node hangs below one of those before it."""
    file = folder / f"{abs(hash((tuple(parents), here)))}.srbw"
    file.unlink(missing_ok=True)
    story = Story.create(file)
    nodes: list[NodeId] = [ROOT]
    for parent in parents:
        [node] = added(story, nodes[parent % len(nodes)], [f"word {len(nodes)} "])
        nodes.append(node)
    story.visit(nodes[here % len(nodes)])
    return story


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 12), max_size=12), st.integers(0, 12))
def test_every_node_is_shown_or_counted_in_a_fold(folder: Path, parents: list[int], here: int) -> None:
    with grown(folder, parents, here) as story:
        found = rows(story)
        shown = {row.node for row in found if not row.folded}
        assert len(shown) == sum(not row.folded for row in found)
        assert set(story.path(story.current)) <= shown
        everything = rows(story, opened={n for n in story.reading_order() if n != story.current})
        assert {row.node for row in everything if not row.folded} == set(story.reading_order())
        for row in found:
            if row.folded:
                hidden = [child for child in story.children(row.node) if child not in shown]
                assert len(hidden) == row.folded


def test_the_way_runs_straight_down(folder: Path) -> None:
    with grown(folder, [0, 1, 1, 2, 4, 4], 5) as story:
        way = [row for row in rows(story) if row.on_way]
        assert [row.node for row in way] == story.path(story.current)
        assert {row.depth for row in way} == {0}


async def test_marks_made_in_the_tree_are_in_the_story(open_bench: OpenBench) -> None:
    async with open_bench(started=12) as bench:
        await bench.press("1", "f3")
        node, story = bench.session.node, bench.session.story
        await bench.press("b")
        assert story.node(node).bookmark


async def test_folded_branches_open_and_can_be_binned(open_bench: OpenBench) -> None:
    async with open_bench(started=12) as bench:
        await bench.press("1", "f3", "up")
        view = bench.app.screen.view  # type: ignore[attr-defined]
        assert view.row.folded == 3
        await bench.press("space")
        assert not any(row.folded == 3 for row in view.rows)
        view.go(next(i for i, row in enumerate(view.rows) if row.depth == 1))
        gone = view.row.node
        await bench.press("x")
        assert not bench.session.story.is_living(gone)
        await bench.press("escape", "ctrl+z")
        assert bench.session.story.is_living(gone)
