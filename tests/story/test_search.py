"""Search finds what is there, ranks it, and reads nothing in a query as an operator."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srbwriter.story import ROOT, Story
from tests.story.branches import generated


def found(story: Story, query: str) -> list[int]:
    return [hit.node for hit in story.search(query)]


def test_words_are_found_in_whatever_changed(story: Story) -> None:
    node = story.append("The lighthouse keeper")
    assert found(story, "lighthouse") == [node]
    story.end_typing()
    story.edit(node, "The harbour master")
    assert found(story, "lighthouse") == []
    assert found(story, "harbour") == [node]
    story.undo()
    assert found(story, "lighthouse") == [node]
    [branch] = generated(story, node, " lit the lamp")
    assert found(story, "lamp") == [branch]
    story.pick(branch, 4)
    assert found(story, "lamp") == story.children(branch)


def test_the_bin_is_searched_when_asked(story: Story) -> None:
    [above] = story.add(ROOT, ["nothing"])
    [node] = story.add(above, ["a heron"])
    story.delete(above)
    assert story.search("heron") == []
    [hit] = story.search("heron", with_bin=True)
    assert (hit.node, hit.binned) == (node, True)


def test_better_matches_come_first_with_a_snippet(story: Story) -> None:
    long = "word " * 60
    weak, strong = story.add(ROOT, [f"{long} heron {long}", "A heron, a heron!"])
    first, second = story.search("heron")
    assert (first.node, second.node) == (strong, weak)
    assert first.score > second.score
    assert first.snippet == "A \x02heron\x03, a \x02heron\x03!"
    assert len(second.snippet) < 120
    assert "\x02heron\x03" in second.snippet


def test_the_language_of_queries(story: Story) -> None:
    one, two = story.add(ROOT, ["the old sea wall", "the old wall by the séance"])
    assert found(story, "old wall") == [two, one] or found(story, "old wall") == [one, two]
    assert found(story, '"old wall"') == [two]
    assert found(story, "wal") and found(story, "wal ") == []
    assert found(story, "seance") == [two]
    assert found(story, "SEA wall") == [one]
    assert found(story, "") == found(story, '" "') == found(story, "...") == []


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=60)
@given(query=st.text(max_size=20) | st.text('"*^:+-()NEAR ANDORT{}', max_size=20))
def test_no_query_is_an_error(story: Story, query: str) -> None:
    story.search(query)


def test_more_hits_than_are_ranked_come_newest_first(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srbwriter.story.search._RANKED", 5)
    nodes = story.add(ROOT, ["a heron"] * 9)
    assert [hit.node for hit in story.search("heron", limit=3)] == nodes[:-4:-1]


def test_a_view_searches_what_was_there_when_it_was_written(story: Story, tmp_path: Path) -> None:
    node = story.append("heron")
    story.search("heron")
    with Story.open(tmp_path / "s.srbw") as view:
        assert found(view, "heron") == [node]
