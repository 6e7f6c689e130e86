"""Chapters are lines of the text: begun, renamed, listed, moved; and search, which finds what looks alike."""

from __future__ import annotations

import pytest

from srbwriter import formats
from srbwriter.story import ROOT, Edit, Refused, Story
from srbwriter.story.outline import outline
from srbwriter.story.search import matches, search_tree
from tests.story.branches import added, generated, sizes

TEXT = "It rained.\n\nShe left.\n\nHe stayed."


def titles(story: Story) -> list[tuple[str, int]]:
    return [(chapter.title, chapter.words) for chapter in story.outline()]


def test_the_outline_is_read_from_the_text() -> None:
    text = "Before.\n# One\n\nTwo words.\n\n* * *\n\nMore.\n## Two ##\n```\n# no\n```\n#no\nEnd."
    assert [(c.title, c.level, text[c.begin : c.end]) for c in outline(text)] == [
        ("One", 1, "# One"), ("", 0, "* * *"), ("Two", 2, "## Two ##"),
    ]  # fmt: skip
    assert outline("") == outline("Nothing here.") == []
    scenes = outline("# One\n\nA b.\n\n~~~\n\nC.\n\n# Two\n\nD.")
    assert [(c.title, c.words) for c in scenes] == [("One", 3), ("", 1), ("Two", 1)]


def test_a_chapter_begins_before_its_paragraph_and_gets_another_title(story: Story) -> None:
    story.append(TEXT)
    story.put_heading(TEXT.index("left"), "Two")
    assert story.text(story.current) == "It rained.\n\n# Two\n\nShe left.\n\nHe stayed."
    story.put_heading(TEXT.index("She left"), "The second")
    assert titles(story) == [("The second", 4)]
    story.put_heading(TEXT.index("She left"), "")
    assert story.text(story.current) == "It rained.\n\n* * *\n\nShe left.\n\nHe stayed."
    for _ in range(3):
        story.undo()
    assert story.text(story.current) == TEXT


def test_a_chapter_at_the_end_begins_behind_the_last_paragraph(story: Story) -> None:
    story.append("It rained.")
    story.put_heading(10, "Two")
    story.append("She left.")
    assert story.text(story.current) == "It rained.\n\n# Two\n\nShe left."


def test_chapters_change_places_with_their_tokens(story: Story) -> None:
    story.token_sizes = sizes
    story.append("Before.\n\n")
    [one, rest] = generated(story, story.current, "# One\n\nIt rained.\n\n", "No.")
    story.pick(one)
    [two, other] = generated(story, one, "# Two\n\nHe ran. She hid.", "Another way.")
    story.pick(two)
    text, node = story.text(story.current), story.current
    assert story.move_chapter(text.index("He ran"), later=False) == len("Before.\n\n")
    moved = "Before.\n\n# Two\n\nHe ran. She hid.\n\n# One\n\nIt rained.\n\n"
    assert story.text(story.current) == moved
    spans = [span for node in story.line(story.current) for span in node.spans]
    assert sum(len(span.ids) for span in spans) >= len(text) // 3 - 4, "tokens move with the words"
    assert all(story.is_living(branch) for branch in (one, two, other, rest))
    assert story.text(one) == "Before.\n\n# One\n\nIt rained.\n\n" and story.node(two).text in text
    with pytest.raises(Refused, match="first chapter"):
        story.move_chapter(moved.index("He ran"), later=False)
    with pytest.raises(Refused, match="last chapter"):
        story.move_chapter(len(moved), later=True)
    with pytest.raises(Refused, match="into a chapter"):
        story.move_chapter(0, later=True)
    story.undo()
    assert (story.text(story.current), story.current) == (text, node)
    assert story.text(other).endswith("It rained.\n\nAnother way.")
    story.redo()
    assert story.text(story.current) == moved


@pytest.mark.parametrize("place", range(1, 36, 5))
@pytest.mark.parametrize("later", [False, True])
def test_a_scene_moves_wherever_the_nodes_of_the_text_begin(story: Story, place: int, later: bool) -> None:
    scenes = ["* * *\nOne.\n\n", "* * *\nTwo two.\n\n", "* * *\nThree."]
    text = "".join(scenes)
    [node] = generated(story, ROOT, text[:place])
    story.pick(node)
    added(story, story.current, [text[place:]], stand=True)
    at = story.move_chapter(text.index("Two"), later=later)
    wanted = [scenes[1], scenes[0], scenes[2]] if not later else [scenes[0], scenes[2] + "\n\n", scenes[1]]
    assert story.text(story.current) == "".join(wanted) and at == "".join(wanted).index(scenes[1])
    story.undo()
    assert story.text(story.current) == text


def test_a_chapter_that_moves_leaves_its_bookmarks_with_the_passages_that_had_them(story: Story) -> None:
    one = story.append("# One\n\nIt rained.\n\n")
    [take] = generated(story, one, "She left.\n\n")
    story.pick(take)
    story.append("# Two\n\nHe stayed.\n")
    story.mark(one, bookmark=True)
    story.mark(take, bookmark=True)
    story.move_chapter(0, later=True)
    assert [node.text for node in story if node.bookmark] == ["# One\n\nIt rained.\n\n", "She left.\n\n"]


def test_the_words_that_were_searched_stand_near_the_beginning_of_what_a_list_shows(story: Story) -> None:
    story.append("It rained all day, " * 9 + "and the harbour was closed.")
    [excerpt] = search_tree(story, "harbour").values()
    assert excerpt.startswith("…") and "harbour was" in excerpt[:30]


def test_a_long_text_becomes_several_nodes(story: Story) -> None:
    text = "It rained all day.\n\n" * 5000
    draft = formats.read(text.encode(), "a.txt")
    with Story.from_draft(story.file.with_name("b.srbw"), draft) as made:
        assert made.text(made.current) == text and len(made) > 3
        made.replace(Edit(50_000, 50_003, "It"))
        assert len(made.text(made.current)) == len(text) - 1


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("He said “don’t”.", "don't", "don’t"),
        ("He said don't.", "DON’T", "don't"),
        ("a cafe\u0301 here", "caf\u00e9", "cafe\u0301"),
        ("a caf\u00e9 here", "cafe\u0301", "caf\u00e9"),
        ("It rained—hard", "rained-hard", "rained—hard"),
        ("10\u00a0km away", "10 km", "10\u00a0km"),
    ],
)
def test_search_finds_what_looks_alike(story: Story, text: str, words: str, found: str) -> None:
    assert [text[start:end] for start, end in matches(text, words)] == [found]
    story.append(text)
    assert [*search_tree(story, f'"{words}"')] == [story.current]


def test_search_finds_all_words_and_says_where(story: Story) -> None:
    [rain, dog] = added(story, ROOT, ["It rained on the harbour.", "The dog of the harbour ran."])
    [gate, gone] = added(story, ROOT, ["他把门关上了。", "他把门关上了。 rain"])
    story.delete(gone)
    assert [*search_tree(story, "harb")] == [dog, rain]
    assert [*search_tree(story, "harbour dog")] == [dog]
    assert search_tree(story, "arbour") == {} == search_tree(story, '"dog the"')
    assert [*search_tree(story, "门关")] == [gate]
    assert [*search_tree(story, "harbour rained").values()] == ["It rained on the harbour."]


def test_an_edit_of_a_models_text_makes_a_sibling_and_moves_what_followed(story: Story) -> None:
    story.token_sizes = sizes
    story.append("It rained. ")
    take, beside = generated(story, story.current, "The dog ran.", "The cat.")
    story.pick(take)
    [after] = added(story, take, [" Home."], stand=True)
    story.replace(Edit(15, 18, "fox"))
    [twin] = set(story.children(story.node(take).parent or ROOT)) - {take, beside}
    assert (story.node(take).text, story.children(take)) == ("The dog ran.", [])
    assert (story.node(twin).text, story.node(twin).author) == ("The fox ran.", "edited")
    assert story.path(story.current)[-2:] == [twin, after] and any(s.ids for s in story.node(twin).spans)
    [late] = generated(story, twin, " It hid.")
    story.undo()
    assert story.path(story.current)[-2:] == [take, after]
    assert story.text(late) == "It rained. The fox ran. It hid."  # what the model wrote stays where it stood
    story.redo()
    assert story.path(story.current)[-2:] == [twin, after]
