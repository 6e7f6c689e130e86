"""A passage that a model rewrote: its own tokens, those around it, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter.story import ROOT, Refused, Story
from srbwriter.story.check import check
from srbwriter.story.model import Span
from tests.story.branches import generated, sizes

TEXT = "one two thr fou fiv six "  # tokens of three characters: "one", " tw", "o t" …
NEW = Span("abc def", "model", (7, 11, 13), "v")  # 3, 3 and 1 characters


@pytest.fixture
def story(tmp_path: Path) -> Story:
    made = Story.create(tmp_path / "story.srbw")
    made.use_token_sizes(sizes)
    return made


def spans(story: Story) -> list[tuple[str, str, tuple[int, ...]]]:
    nodes = story.nodes(story.path(story.current))
    return [(span.text, span.author, span.ids) for node in nodes for span in node.spans]


def test_the_passage_and_the_text_around_it_keep_their_tokens(story: Story) -> None:
    [node] = generated(story, ROOT, TEXT)
    story.pick(node)
    [below] = generated(story, node, "the next part")
    story.rewrite(6, 12, (NEW,))
    assert spans(story) == [(TEXT[:6] + NEW.text + TEXT[12:], "model", (3, 3, 7, 11, 13, 3, 3, 3, 3))]
    assert story.current == node and story.children(node) == [below]
    kept = [story.node(other) for other in story.siblings(node) if other != node]
    assert [other.text for other in kept] == [TEXT], "the model's version stays beside it"
    assert story.undo().verb == "rewrite"  # type: ignore[union-attr]
    assert spans(story) == [(TEXT, "model", (3,) * 8)] and story.siblings(node) == [node]
    story.redo()
    assert spans(story)[0][2] == (3, 3, 7, 11, 13, 3, 3, 3, 3)


def test_a_passage_over_several_nodes_and_a_chapter(story: Story) -> None:
    [first] = generated(story, ROOT, TEXT)
    story.pick(first)
    written = story.append("by hand ")
    [third] = generated(story, written, TEXT)
    story.pick(third)
    story.begin_chapter(len(TEXT) + 8, "Two")
    whole = story.text(story.current)
    before = spans(story)
    story.rewrite(21, len(TEXT) + 8 + 3, (NEW,))
    after = story.text(story.current)
    assert after == whole[:21] + NEW.text + whole[len(TEXT) + 8 + 3 :]
    assert spans(story)[0] == (TEXT[:21] + NEW.text, "model", (3,) * 7 + NEW.ids)
    assert spans(story)[-1] == (TEXT[3:], "model", (3,) * 7)
    assert [chapter.title for chapter in story.outline()][-1:] == ["Two"]
    story.undo()
    assert (story.text(story.current), spans(story)) == (whole, before)


def test_words_typed_after_it_are_an_action_of_their_own(story: Story) -> None:
    story.append("He ran home. Then he slept.")
    story.rewrite(0, 12, (NEW,))
    story.append(" And then?")
    story.undo()
    assert story.text(story.current) == NEW.text + " Then he slept."
    assert spans(story)[0] == (NEW.text, "model", NEW.ids)


@pytest.mark.parametrize("place", [(3, 3), (5, 2), (0, 99), (-1, 4)])
def test_what_is_no_passage_is_refused(story: Story, place: tuple[int, int]) -> None:
    story.append("He ran home.")
    with pytest.raises(Refused, match="no passage"):
        story.rewrite(*place, (NEW,))
    assert story.text(story.current) == "He ran home."


def test_it_is_in_the_file(story: Story) -> None:
    [node] = generated(story, ROOT, TEXT)
    story.pick(node)
    story.rewrite(3, 9, (NEW, Span("!", "model")))
    before = spans(story)
    story.close()
    assert not check(story.file).problems
    with Story.open(story.file) as opened:
        assert spans(opened) == before
        opened.undo()
        assert opened.text(opened.current) == TEXT
