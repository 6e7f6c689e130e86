"""What assembly puts into a prompt, in which order, and what it says about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srbwriter.engine.tree import common_prefix
from srbwriter.story.context import (
    Assembly,
    ContextError,
    Layout,
    Tokenizer,
    assemble,
)
from srbwriter.story.model import LoreEntry, Span, StorySettings, Template
from tests.story.context_tokens import VOCABULARY, a_node, toy_tokenizer

WIDE = 10_000, 100  # n_ctx, reserve


def text_of(assembly: Assembly) -> str:
    return "".join(segment.text for segment in assembly.segments)


def run(node_id: str, text: str, tokenizer: Tokenizer | None = None) -> tuple[str, list[Span]]:
    if tokenizer is None:
        return a_node(node_id, text)
    return a_node(node_id, text, tuple(tokenizer.tokenize(text)), VOCABULARY)


def paragraphs(count: int, words: int = 8) -> str:
    return "".join(" ".join(f"w{p}x{w}" for w in range(words)) + ".\n" for p in range(count))


def assemble_text(
    text: str, settings: StorySettings, window: tuple[int, int] = WIDE, layout: Layout | None = None
) -> Assembly:
    return assemble([run("n", text)], settings, toy_tokenizer(), *window, layout)


def test_the_order_is_bos_template_memory_lore_story_template() -> None:
    settings = StorySettings(
        memory="A quiet village.",
        lore=[LoreEntry("1", text="The mill is old.", constant=True)],
        template=Template(before="<|user|>", between="<|model|>", after="<|go|>"),
    )
    assembly = assemble([run("n", "Once.")], settings, replace(toy_tokenizer(), bos=(7,)), 1000, 10)
    assert [s.source for s in assembly.segments] == [
        "bos",
        "template",
        "memory",
        "lore",
        "template",
        "story",
        "template",
    ]
    assert text_of(assembly) == "<|user|>A quiet village.\nThe mill is old.\n<|model|>Once.<|go|>"
    assert assembly.tokens[0] == 7


def test_only_the_template_may_name_special_tokens() -> None:
    def tokenize_template(text: str) -> list[int]:
        return [900]

    tokenizer = replace(toy_tokenizer(), tokenize_template=tokenize_template)
    settings = StorySettings(memory="<|end|>", template=Template(before="<|user|>"))
    assembly = assemble([run("n", "<|user|>")], settings, tokenizer, *WIDE)
    assert [s.tokens == (900,) for s in assembly.segments] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "depth", "expected"),
    [
        ("one\ntwo\nthree\nfour\nfive", 2, "one\ntwo\nthree\n[grim]\nfour\nfive"),
        ("one\n\ntwo\n\nthree\n", 2, "one\n\n[grim]\ntwo\n\nthree\n"),  # blank lines do not count
        ("one\ntwo and", 0, "one\n[grim]\ntwo and"),  # never after the last line
    ],
)
def test_the_note_stands_its_depth_in_lines_before_the_end(text: str, depth: int, expected: str) -> None:
    assert (
        text_of(assemble_text(text, StorySettings(author_note="[grim]", author_note_depth=depth))) == expected
    )


def grown(
    settings: StorySettings, before: str, more: str, window: tuple[int, int] = WIDE
) -> tuple[Assembly, Assembly]:
    """The assembly of node a, and then that of a and b, which knows the first."""
    tokenizer, path = toy_tokenizer(), [run("a", before), run("b", more)]
    first = assemble(path[:1], settings, tokenizer, *window)
    return first, assemble(path, settings, tokenizer, *window, first.layout)


def kept(first: Assembly, second: Assembly) -> int:
    """The tokens of the first prompt with which the second one begins."""
    return common_prefix(first.tokens, second.tokens, 0, min(len(first.tokens), len(second.tokens)))


def test_the_note_keeps_its_place_while_the_story_grows_a_little() -> None:
    settings = StorySettings(author_note="[grim]", author_note_depth=1)
    first, second = grown(settings, paragraphs(5), "More.\n")
    assert kept(first, second) == len(first.tokens)
    assert second.layout["note"] == first.layout["note"]
    first, second = grown(settings, paragraphs(3), paragraphs(15), (400, 50))
    assert second.layout["note"][0] == "b", "and follows when it has outgrown it"
    assert kept(first, second) < len(first.tokens)


def test_note_and_lore_are_placed_anew_together_when_an_entry_is_called() -> None:
    lore = [LoreEntry("t", text="Lore.", keys=["mill"], depth=2)]
    settings = StorySettings(author_note="[grim]", author_note_depth=1, lore=lore)
    first, second = grown(settings, paragraphs(4), "The mill.\nTurned.\n")
    assert first.layout["note"][0] == "a"
    assert text_of(second).endswith("Lore.\nThe mill.\n[grim]\nTurned.\n")


def test_triggered_lore_stands_in_the_story_and_constant_lore_before_it() -> None:
    lore = [
        LoreEntry("c", text="Constant.", constant=True),
        LoreEntry("t", text="Triggered.", keys=["mill"], depth=1),
        LoreEntry("q", text="Quiet.", keys=["dragon"], depth=1),
    ]
    assembly = assemble_text("The mill\nturned.", StorySettings(lore=lore))
    assert text_of(assembly) == "Constant.\nThe mill\nTriggered.\nturned."


def test_lore_lingers_until_its_place_is_touched() -> None:
    settings = StorySettings(lore=[LoreEntry("t", text="Lore.", keys=["mill"], depth=2, scan_depth=40)])
    before, more = paragraphs(3) + "The mill.\n", paragraphs(2)
    first, second = grown(settings, before, more)
    assert "Lore." in text_of(second) and kept(first, second) == len(first.tokens)
    cold = assemble([run("a", before), run("b", more)], settings, toy_tokenizer(), *WIDE)
    assert "Lore." not in text_of(cold)


def test_lore_that_was_switched_off_goes_at_once() -> None:
    entry = LoreEntry("t", text="Lore.", keys=["mill"], depth=2)
    text = paragraphs(3) + "The mill.\n"
    first = assemble_text(text, StorySettings(lore=[entry]))
    off = LoreEntry("t", text="Lore.", keys=["mill"], depth=2, enabled=False)
    second = assemble_text(text, StorySettings(lore=[off]), layout=first.layout)
    assert "Lore." in text_of(first)
    assert "Lore." not in text_of(second)
    assert "lore:t" not in second.layout


def test_lore_budgets_are_kept_and_losses_named() -> None:
    lore = [
        LoreEntry("low", text="low " * 30, constant=True, order=1),
        LoreEntry("high", text="high " * 30, constant=True, order=9),
    ]
    assembly = assemble_text("Once.", StorySettings(lore=lore, lore_budget=60))
    assert [s.text[:5] for s in assembly.segments if s.source == "lore"] == ["high "]
    assert [(lost.source, lost.text[:4]) for lost in assembly.dropped] == [("lore", "low ")]


def test_an_entry_is_cut_to_its_own_budget_at_a_word() -> None:
    entry = LoreEntry("e", text="alpha beta gamma delta", constant=True, token_budget=3)
    assembly = assemble_text("Once.", StorySettings(lore=[entry]))
    (segment,) = [s for s in assembly.segments if s.source == "lore"]
    assert len(segment.tokens) <= 3
    assert segment.text == "alpha beta "
    assert assembly.dropped[0].text == "gamma delta\n"


def test_a_long_memory_gives_way_to_the_story() -> None:
    window = 200, 40
    assembly = assemble_text(paragraphs(50), StorySettings(memory="word " * 500), window)
    assert len(assembly.tokens) <= 160
    assert sum(len(s.tokens) for s in assembly.segments if s.source == "story") >= 20
    assert any(lost.source == "memory" for lost in assembly.dropped)


@pytest.mark.parametrize("stored", [True, False])
def test_a_cut_leaves_seven_tenths_and_starts_a_paragraph(stored: bool) -> None:
    tokenizer = toy_tokenizer()
    path = [run(str(i), paragraphs(3), tokenizer if stored else None) for i in range(40)]
    window = 700, 100
    assembly = assemble(path, StorySettings(), tokenizer, *window)
    assert 300 <= len(assembly.tokens) <= 450
    assert assembly.dropped[0].text.endswith("\n")
    assert "cut" in assembly.layout


def test_a_paragraph_longer_than_the_window_is_cut_at_a_sentence() -> None:
    text = "".join(f"Word {i} of many. " for i in range(400))
    assembly = assemble_text(text, StorySettings(), (300, 50))
    assert text_of(assembly).lstrip().startswith("Word ")


def test_stored_ids_are_used_as_they_are_even_when_cut() -> None:
    """Ids that the tokenizer would never produce for the text must survive, whole or sliced."""
    tokenizer = toy_tokenizer()
    text = paragraphs(60)
    odd = tuple(token for char in text for token in tokenizer.tokenize(char))  # one token per character
    assert odd != tuple(tokenizer.tokenize(text))
    window = 900, 100
    assembly = assemble(
        [a_node("n", text, odd, VOCABULARY)], StorySettings(author_note="[x]"), tokenizer, *window
    )
    story = [s for s in assembly.segments if s.source == "story"]
    kept = tuple(token for segment in story for token in segment.tokens)
    assert len(story) == 2
    assert kept == odd[-len(kept) :]
    assert [tokenizer.sizes(VOCABULARY, s.tokens) for s in story] == [[1] * len(s.text) for s in story]


def test_ids_of_another_vocabulary_are_not_used() -> None:
    tokenizer = toy_tokenizer()
    for foreign in (a_node("n", "Once.", (1, 2, 3), "other"), a_node("n", "Once.", (1, 2, 3), "")):
        assert assemble([foreign], StorySettings(), tokenizer, *WIDE).tokens == tuple(
            tokenizer.tokenize("Once.")
        )


def test_ids_whose_characters_are_not_the_text_are_kept_whole() -> None:
    """Where the tokens have more or fewer characters than the text, no place inside it can be opened."""
    tokenizer = toy_tokenizer()
    ids = tuple(tokenizer.tokenize("one\ntwo\nthree\n"))
    damaged = a_node("b", "one\ntwo\nthr��e\n", ids, VOCABULARY)
    settings = StorySettings(author_note="[x]", author_note_depth=2)
    assembly = assemble([run("a", "zero\n"), damaged], settings, tokenizer, *WIDE)
    assert [s.text for s in assembly.segments] == ["zero\n", "[x]\n", "one\ntwo\nthr��e\n"]
    assert assembly.segments[2].tokens == ids


def test_a_healed_token_takes_its_lead_from_the_text_before() -> None:
    tokenizer = toy_tokenizer()
    healed = tuple(tokenizer.tokenize("berry jam"))
    path = [run("a", "a strawbe"), a_node("b", "rry jam", healed, VOCABULARY, lead="be")]
    assembly = assemble(path, StorySettings(), tokenizer, *WIDE)
    assert text_of(assembly) == "a strawberry jam"
    assert [s.text for s in assembly.segments] == ["a straw", "berry jam"]
    assert assembly.segments[1].tokens == healed


def test_a_token_whose_lead_is_no_longer_there_becomes_text() -> None:
    tokenizer = toy_tokenizer()
    healed = tuple(tokenizer.tokenize("berry jam"))
    path = [run("a", "a straw"), a_node("b", "rry jam", healed, VOCABULARY, lead="be")]
    assembly = assemble(path, StorySettings(), tokenizer, *WIDE)
    assert [s.text for s in assembly.segments] == ["a straw", "rry", " jam"]
    assert assembly.segments[2].tokens == healed[1:]


def test_a_window_that_is_too_small_says_so() -> None:
    with pytest.raises(ContextError, match="reserve less"):
        assemble([run("n", "Once.")], StorySettings(), toy_tokenizer(), 100, 95)


def test_bad_lore_keys_are_reported_and_harmless() -> None:
    lore = [LoreEntry("bad", "Bad", "x", keys=["/(/"]), LoreEntry("good", text="Good.", keys=["once"])]
    assembly = assemble_text("Once.", StorySettings(lore=lore))
    assert "Good." in text_of(assembly)
    assert [problem for problem in assembly.problems if "/(/" in problem]
