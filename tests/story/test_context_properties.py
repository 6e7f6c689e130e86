"""What holds for every story: the budget, the ids, the sums, and how often the prefix survives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story.context import Assembly, ContextError, Layout, Tokenizer, Window, assemble
from srbwriter.story.model import LoreEntry, Settings, Span, Template
from tests.sizes import examples, some_of
from tests.story.context_tokens import VOCABULARY, a_node, toy_tokenizer

TEXTS = st.text(alphabet='ab é🙂\n."x', max_size=60)


@dataclass
class Recorder:
    """A tokenizer that remembers which texts it was asked to tokenise."""

    inner: Tokenizer
    seen: list[str]

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self._tokenize, self.inner.pieces, self.inner.vocabulary)

    def _tokenize(self, text: str) -> Sequence[int]:
        self.seen.append(text)
        return self.inner.tokenize(text)


def recorder() -> Recorder:
    return Recorder(toy_tokenizer(), [])


@st.composite
def paths(draw: st.DrawFn) -> list[tuple[str, bool]]:
    return draw(st.lists(st.tuples(TEXTS, st.booleans()), max_size=12))


Path = tuple[str, list[Span]]


def spans_of(path: list[tuple[str, bool]], tokenizer: Tokenizer, *, leads: bool = True) -> list[Path]:
    """Two spans per node; a stored one takes the last character before it as its lead, as healing does."""
    nodes: list[Path] = []
    before = ""
    for index, (text, stored) in enumerate(path):
        lead = before if leads and stored and index % 3 == 0 else ""
        ids = tuple(tokenizer.tokenize(lead + text)) if stored else ()
        if index % 2 == 0:
            nodes.append((f"n{index // 2}", []))
        nodes[-1][1].append(Span(text, "model", ids, VOCABULARY, lead=lead))
        before = text[-1:]
    return nodes


LORE = st.lists(
    st.builds(
        LoreEntry,
        id=st.sampled_from("pqr"),
        text=TEXTS,
        keys=st.lists(st.sampled_from(["a", "b", "/x+/", "é"]), max_size=2),
        constant=st.booleans(),
        depth=st.none() | st.integers(0, 9),
        token_budget=st.none() | st.integers(0, 20),
        order=st.integers(0, 3),
    ),
    max_size=3,
    unique_by=lambda entry: entry.id,
)

SETTINGS = st.builds(
    Settings,
    memory=st.none() | TEXTS,
    author_note=st.none() | TEXTS,
    author_note_depth=st.none() | st.integers(0, 9),
    lore=LORE,
    lore_budget=st.none() | st.integers(0, 60),
    template=st.none() | st.builds(Template, before=TEXTS, between=TEXTS, after=TEXTS),
)


def check(assembly: Assembly, nodes: Sequence[Path], tokenizer: Tokenizer, window: Window) -> None:
    assert len(assembly.tokens) <= window.available
    assert sum(assembly.counts.values()) == len(assembly.tokens)
    assert tuple(t for s in assembly.segments for t in s.tokens) == assembly.tokens
    story = "".join(s.text for s in assembly.segments if s.source == "story")
    lost = "".join(f.text for f in assembly.dropped if f.source == "story")
    assert lost + story == "".join(span.text for _, spans in nodes for span in spans)
    for segment in assembly.segments:
        if segment.source != "bos":
            assert b"".join(tokenizer.pieces(segment.tokens)).decode() == segment.text


@settings(max_examples=examples(150), deadline=None)
@given(path=paths(), what=SETTINGS, n_ctx=st.integers(40, 400), reserve=st.integers(0, 60))
def test_budget_sums_and_text_hold_for_any_story(
    path: list[tuple[str, bool]], what: Settings, n_ctx: int, reserve: int
) -> None:
    tokenizer = toy_tokenizer()
    nodes, window = spans_of(path, tokenizer), Window(n_ctx, reserve, bos=(0,))
    tokenizer.tokenize("\x00")
    try:
        assembly = assemble(nodes, what, tokenizer, window)
    except ContextError:
        return
    check(assembly, nodes, tokenizer, window)
    again = assemble(nodes, what, tokenizer, window, assembly.layout, assembly.tokens)
    check(again, nodes, tokenizer, window)
    assert again.tokens == assembly.tokens, "assembling twice with nothing changed must change nothing"
    assert again.layout == assembly.layout


@settings(max_examples=examples(100), deadline=None)
@given(path=paths(), what=SETTINGS, n_ctx=st.integers(60, 300), extra=st.lists(TEXTS, min_size=1, max_size=6))
def test_any_growth_and_going_back_keeps_the_rules(
    path: list[tuple[str, bool]], what: Settings, n_ctx: int, extra: list[str]
) -> None:
    tokenizer = toy_tokenizer()
    window = Window(n_ctx, 10)
    layout = Layout()
    for step in range(len(extra) + 1):
        grown = spans_of([*path, *((text, True) for text in extra[:step])], tokenizer)
        back = spans_of(path[: len(path) // 2], tokenizer)
        for nodes in (grown, back, grown):
            try:
                assembly = assemble(nodes, what, tokenizer, window, layout)
            except ContextError:
                return
            check(assembly, nodes, tokenizer, window)
            layout = assembly.layout


@settings(max_examples=examples(100), deadline=None)
@given(path=paths(), what=SETTINGS, n_ctx=st.integers(40, 200))
def test_text_with_known_ids_is_never_tokenised_again(
    path: list[tuple[str, bool]], what: Settings, n_ctx: int
) -> None:
    """Texts of stored nodes bear a mark of their own; the tokenizer must never be shown one."""
    plain = toy_tokenizer()
    marked = [(text.replace("a", "Q") + "Q" if stored else text, stored) for text, stored in path]
    nodes = spans_of(marked, plain, leads=False)
    watched = recorder()
    watched.inner = plain
    try:
        first = assemble(nodes, what, watched.tokenizer, Window(n_ctx, 10))
        assemble(nodes, what, watched.tokenizer, Window(n_ctx, 10), first.layout)
    except ContextError:
        return
    assert not [text for text in watched.seen if "Q" in text]


def prose(rng: random.Random, tokens: int) -> str:
    """About ``tokens`` tokens of made-up prose with sentences and paragraphs."""
    words = [
        rng.choice(["the", "old", "mill", "river", "and", "slept", "under", "a", "moon"])
        for _ in range(tokens)
    ]
    for index in range(6, len(words), rng.randint(7, 11)):
        words[index] += rng.choice([".", ".", ".\n", ".\n\n"])
    return " ".join(words) + " "


@pytest.mark.parametrize("stored", some_of([True, False], [True]))
@pytest.mark.parametrize(
    "what",
    [
        Settings(memory="A village by a river. " * 10),
        Settings(
            memory="A village by a river. " * 10,
            author_note="[Style: plain, quiet.]",
            lore=[
                LoreEntry("m", text="The mill has stood empty for years.", keys=["mill"]),
                LoreEntry("k", text="It is autumn.", constant=True),
            ],
        ),
    ],
    ids=["memory", "note and lore"],
)
def test_most_picks_keep_the_whole_prefix(what: Settings, stored: bool) -> None:
    """150 picks of about 60 tokens in a window of 4096: at least nine in ten only continue the prompt."""
    rng = random.Random(4)
    tokenizer = toy_tokenizer()
    window = Window(n_ctx=4096, reserve=256)
    nodes: list[Path] = []
    before = assemble(nodes, what, tokenizer, window)
    kept = picks = again = 0
    for index in range(150):
        text = prose(rng, rng.randint(30, 90))
        ids = tuple(tokenizer.tokenize(text)) if stored else ()
        nodes.append(a_node(f"n{index}", text, ids, VOCABULARY))
        now = assemble(nodes, what, tokenizer, window, before.layout, before.tokens)
        assert len(now.tokens) <= window.available
        picks += 1
        slack = 0 if stored else 2  # typed text joins its neighbour: the last token or two may change
        kept += now.cache_break >= len(before.tokens) - slack
        again += len(now.tokens) - now.cache_break
        before = now
    cold = sum(len(spans[0].text.split()) for _, spans in nodes)
    print(f"{kept}/{picks} picks kept the prefix; {again} tokens decoded for {cold} words written")
    assert kept >= 0.9 * picks
