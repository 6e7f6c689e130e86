"""Chapters and scenes: headings before paragraphs, and chapters that change places."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from srbwriter.story import ROOT, Edit, NodeId, Refused, Story
from srbwriter.story.headings import headings
from tests.story.branches import generated, sizes

BOOK = "It rained.\n\nShe left.\n\nHe stayed.\n\nThe sun rose."


def shown(story: Story) -> list[tuple[str, str]]:
    """Each heading with the first line below it."""
    text = story.text(story.current)
    marks = [(chapter.begin, chapter.title) for chapter in story.outline()]
    return [(heading.words, text[heading.start :].split("\n")[0]) for heading in headings(text, marks)]


def book(story: Story, *titles: tuple[str, str]) -> None:
    """Write the book, and begin a chapter at each paragraph that starts with the given words."""
    story.append(BOOK)
    for words, title in titles:
        story.begin_chapter(BOOK.index(words), title)


def test_a_chapter_begins_at_a_paragraph_and_no_letter_changes(story: Story) -> None:
    book(story, ("She", "Two"), ("It", "One"), ("He", ""))
    assert story.text(story.current) == BOOK
    assert shown(story) == [("One", "It rained."), ("Two", "She left."), ("* * *", "He stayed.")]
    assert [chapter.words for chapter in story.outline()] == [2, 2, 5]
    assert sum(chapter.words for chapter in story.outline()) == story.words(story.current)


def test_a_heading_gets_another_title_and_goes(story: Story) -> None:
    book(story, ("He", "Three"))
    [chapter] = story.outline()
    story.set_heading(chapter.node, " The  third ")
    assert shown(story) == [("The third", "He stayed.")]
    story.set_heading(chapter.node, "")
    assert shown(story) == [("* * *", "He stayed.")]
    story.mark(chapter.node, chapter=False)
    assert shown(story) == [] and story.text(story.current) == BOOK
    for _ in range(3):
        story.undo()
    assert shown(story) == [("Three", "He stayed.")]


def test_a_chapter_at_the_end_takes_what_is_written_next(story: Story) -> None:
    story.append("It rained.\n\n")
    story.begin_chapter(len("It rained.\n\n"), "Two")
    assert shown(story) == [("Two", "")]
    story.append("She left.")
    assert shown(story) == [("Two", "She left.")]
    [chapter] = story.outline()
    assert (chapter.begin, chapter.words) == (12, 2)


def test_a_generated_text_keeps_its_tokens_where_a_chapter_begins(story: Story) -> None:
    story.use_token_sizes(sizes)
    [node] = generated(story, ROOT, "One two.\n\nThree four.")
    story.pick(node)
    before = [token for part in story.node(node).spans for token in part.ids]
    story.begin_chapter(len("One two.\n\n"), "Two")
    nodes = story.path(story.current)[1:]
    after = [token for n in nodes for part in story.node(n).spans for token in part.ids]
    assert len(nodes) == 2 and after == before
    assert {story.node(n).author for n in nodes} == {"model"}


def test_a_heading_stands_before_the_paragraph_that_its_words_fall_into(story: Story) -> None:
    [one] = story.add(ROOT, ["It rained. She"], stand=True)
    [two] = story.add(one, [" left.\n\n"], stand=True)
    [three] = story.add(two, ["\n\nHe stayed."], stand=True)
    story.mark(two, chapter=True, title="Two")
    story.mark(three, chapter=True, title="Three")
    assert shown(story) == [("Two", "It rained. She left."), ("Three", "He stayed.")]


def test_words_typed_at_a_chapters_first_letter_belong_to_it(story: Story) -> None:
    book(story, ("She", "Two"))
    at = BOOK.index("She")
    story.replace(Edit(at, at, "New first.\n\n"))
    assert shown(story) == [("Two", "New first.")]


def test_words_typed_before_a_generated_chapter_belong_to_it(story: Story) -> None:
    story.append("It rained.\n\n")
    [node] = generated(story, story.current, "She left.")
    story.pick(node)
    story.begin_chapter(12, "Two")
    story.replace(Edit(12, 12, "New first.\n\n"))
    assert shown(story) == [("Two", "New first.")]


# -- moving ------------------------------------------------------------------------------------------------


def test_a_chapter_moves_with_its_scenes_and_one_undo_takes_it_back(story: Story) -> None:
    book(story, ("It", "One"), ("She", ""), ("He", "Two"))
    before = [story.node(node) for node in story.path(story.current)]
    start = story.move_chapter(len(BOOK), later=False)
    assert (start, story.text(story.current)) == (0, "He stayed.\n\nThe sun rose.\n\nIt rained.\n\nShe left.")
    assert shown(story) == [("Two", "He stayed."), ("One", "It rained."), ("* * *", "She left.")]
    assert (story.undo() or pytest.fail()).verb == "move_chapter"
    assert story.text(story.current) == BOOK
    assert [story.node(node) for node in story.path(story.current)] == before
    start = story.move_chapter(0, later=True)
    assert story.text(story.current)[start:].startswith("It rained.")


def test_moves_that_cannot_be_are_refused(story: Story) -> None:
    book(story, ("She", "One"), ("He", "Two"))
    for place, later, words in (
        (0, True, "no chapter starts before the cursor"),
        (BOOK.index("She"), False, "this is the first chapter already"),
        (len(BOOK), True, "this is the last chapter already"),
    ):
        with pytest.raises(Refused, match=words):
            story.move_chapter(place, later=later)


def test_what_was_not_picked_stays_reachable_when_its_chapter_moves(story: Story) -> None:
    book(story, ("It", "One"), ("He", "Two"))
    first, second = (chapter.node for chapter in story.outline())
    above = story.parent(second)
    assert above is not None
    [other] = generated(story, above, "Another second.")
    [after] = generated(story, story.current, " And then.")
    living = set(story.reading_order())
    story.move_chapter(0, later=True)
    assert living <= set(story.reading_order())
    assert story.text(other).endswith("Another second.") and "It rained." in story.text(other)
    assert story.text(after).endswith("The sun rose. And then.")
    assert story.path(story.current).index(second) < story.path(story.current).index(first)


PARTS = st.lists(
    st.tuples(
        st.text("ab", min_size=1, max_size=4),
        st.sampled_from(["\n", "\n\n", "\n\n\n"]),
        st.sampled_from([None, "", "T", "U"]),
    ),
    min_size=1,
    max_size=7,
)


def split(story: Story, at: int) -> NodeId:
    """Split the node that holds character ``at`` of the text."""
    begin = 0
    for node in story.path(story.current)[1:]:
        size = len(story.node(node).text)
        if begin < at < begin + size:
            return story.split(node, at - begin)
        begin += size
    return story.current
