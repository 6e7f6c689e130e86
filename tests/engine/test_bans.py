"""Phrases that never come: what is found in a text, and how a branch goes on without it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import (
    BranchView,
    Cut,
    FinishReason,
    PhraseBanned,
    Priority,
    Request,
    Sampling,
    Stop,
)

from .support import (
    GREEDY,
    PROMPT,
    decoded_rows,
    dictated,
    evaluate_last_tokens,
    finish,
    published,
    stepped,
)

# ---- what a phrase is


def pattern(phrases: Sequence[str]) -> re.Pattern[str]:
    """The rule of :mod:`srbwriter.engine.rules` once more, as a regular expression."""
    alternatives: list[str] = []
    for phrase in phrases:
        words = [re.escape(word.replace("’", "'")) for word in phrase.split()]
        begin = r"(?<![^\W_])" if words[0].lstrip("\\")[0].isalnum() else ""
        alternatives.append(begin + r"\s+".join(words))
    return re.compile("|".join(alternatives), re.IGNORECASE)


def ends_of(phrases: Sequence[str], text: str) -> set[int]:
    """Where the phrases end in a text, those within each other included."""
    plain = text.replace("’", "'")
    found: set[int] = set()
    for phrase in phrases:
        one = pattern([phrase])
        begin = 0
        while match := one.search(plain, begin):
            found.add(match.end())
            begin = match.start() + 1
    return found


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("a testament to", "It was A  Testament\n to love.", True),
        ("he said", "she said", False), ("he said", '"he said', True),
        ("shiver", "shivers", True), ("couldn't help but", "couldn’t help but", True),
        ("— and", "no — and", True), ("orb", "absorb", False), (" orb ", "orbs", True),
    ],
)  # fmt: skip
def test_examples(engine: Engine, phrase: str, text: str, found: bool) -> None:
    ids = engine.tokenize_continuation(text)
    generation = dictated(engine, ids, Stop(max_tokens=len(ids) + 8), banned_phrases=(phrase,)).wait(60)
    assert bool(generation.branches[0].bans) is found


# ---- branches


COMMON = (
    "the fox was", "he saw a", "one day", "loved to play", "found a big", "his friends", "he was very",
    "in the woods", "wanted to", "the little fox", "a big tree", "decided to go", "was so happy",
)  # fmt: skip
LONG = Stop(max_tokens=60, ignore_eog=True)


def written(engine: Engine, request: Request) -> Generation:
    return engine.submit(request).wait(60)


def hits(generation: Generation) -> list[PhraseBanned]:
    return [event for event in generation.log if isinstance(event, PhraseBanned)]


def test_no_branch_writes_a_phrase(engine: Engine) -> None:
    sampling = Sampling(seed=5, banned_phrases=COMMON)
    generation = written(engine, Request(PROMPT, n=6, sampling=sampling, stop=LONG, logprobs=0))
    assert len(hits(generation)) >= 6 and all(hit.tokens for hit in hits(generation))
    assert not any(isinstance(event, Cut) for event in generation.log), "nobody saw the beginning of one"
    for branch, (text, ids) in zip(generation.branches, published(generation), strict=True):
        assert not ends_of(COMMON, PROMPT + branch.text)
        assert text == branch.text == engine.detokenize(branch.ids) and ids == list(branch.ids)
        assert len(branch.ids) == len(branch.logprobs) == len(branch.buffer.ends) == 60
        assert [known.id for known in branch.logprobs] == ids and branch.buffer.ends[-1] == len(text)
        assert branch.bans == sum(hit.branch == branch.index for hit in hits(generation))


def test_going_back_evaluates_nothing(engine: Engine) -> None:
    evaluate_last_tokens(engine)  # whose decodes would be counted, too
    with stepped(n_ctx=512) as own, decoded_rows(own) as decoded:
        banned = Sampling(seed=5, banned_phrases=COMMON)
        generation = own.submit(Request(PROMPT, sampling=banned, stop=LONG))
        finish(own, generation)
        taken_back = sum(hit.tokens for hit in hits(generation))
        assert taken_back
        # the last token is never evaluated, nor is one that completes a phrase
        later = sum(hit.tokens - 1 for hit in hits(generation))
        assert sum(decoded) == len(generation.prompt_ids) + 59 + later


def test_a_phrase_may_begin_in_the_prompt(engine: Engine) -> None:
    free = written(engine, Request(PROMPT, sampling=GREEDY, stop=LONG)).branches[0].text
    first, second = free.split()[:2]
    banned = Sampling(temperature=0, banned_phrases=(f"wood. {first}", f"{first} {second}"))
    for prompt in (PROMPT, f"{PROMPT} {first}"):
        text = written(engine, Request(prompt, sampling=banned, stop=LONG)).branches[0].text
        assert not [end for end in ends_of(banned.banned_phrases, prompt + text) if end > len(prompt)]


# ---- dead ends


def test_going_back_for_one_phrase_lets_no_other_one_begin_in_what_is_shown(engine: Engine) -> None:
    one, upon, time, day, ran = (
        engine.tokenize_continuation(word)[0] for word in (" one", " upon", " time", " day", " ran")
    )
    ways = {None: (one,), one: (upon, day, ran), upon: (time, ran)}

    def lead(logits: Any, view: BranchView) -> None:
        logits[:] = -50.0
        for rank, token in enumerate(ways.get(view.ids[-1] if view.ids else None, (ran,))):
            logits[token] = 9.0 - rank

    sampling = Sampling(temperature=0.0, banned_phrases=("one day", "upon time"))
    stop = Stop(max_tokens=4, ignore_eog=True)
    generation = written(engine, Request(PROMPT, sampling=sampling, stop=stop, logits_callback=lead))
    (branch,) = generation.branches
    assert branch.bans == 2
    assert not ends_of(sampling.banned_phrases, branch.text)
    assert not any(isinstance(event, Cut) for event in generation.log), "what is shown stays"


def test_many_common_phrases_stay_away_or_it_is_said(engine: Engine) -> None:
    begun = written(engine, Request(PROMPT, n=8, stop=Stop(max_tokens=80, ignore_eog=True)))
    words = [re.findall(r"[A-Za-z']+", branch.text.lower()) for branch in begun.branches]
    pairs = Counter(f"{a} {b}" for each in words for a, b in itertools.pairwise(each))
    phrases = tuple(phrase for phrase, _ in pairs.most_common(150))
    request = Request(
        PROMPT, n=8, sampling=Sampling(seed=7, banned_phrases=phrases),
        stop=Stop(max_tokens=80, ignore_eog=True),
    )  # fmt: skip
    generation = written(engine, request)
    stays = Counter(hit.branch for hit in hits(generation) if not hit.tokens)
    for branch in generation.branches:
        ends = {end for end in ends_of(phrases, PROMPT + branch.text) if end > len(PROMPT)}
        assert len(ends) <= stays[branch.index]


def test_a_longer_phrase_is_found_where_a_shorter_one_stands(engine: Engine) -> None:
    pieces = engine.pieces(range(engine.info.n_vocab))
    ids = [pieces.index(b" th"), pieces.index(b"at"), *engine.tokenize_continuation(" ran")]

    def dictate(logits: Any, view: BranchView) -> None:
        logits[ids[min(len(view.ids), 2)]] += 1000.0

    sampling = Sampling(temperature=0.0, banned_phrases=("he said", "he said that"))
    stop = Stop(max_tokens=3, ignore_eog=True)
    generation = written(
        engine, Request("Then he said", sampling=sampling, stop=stop, logits_callback=dictate)
    )
    assert "that" not in generation.branches[0].text and hits(generation)


def test_a_grammar_is_followed_on_another_way(engine: Engine) -> None:
    grammar = 'root ::= " The little fox slept." | " The little bear slept." | " A bird sang."'
    sampling = Sampling(seed=1, grammar=grammar, banned_phrases=("little fox", "little bear"))
    generation = written(engine, Request(PROMPT, n=4, sampling=sampling, stop=LONG))
    assert [branch.text for branch in generation.branches] == [" A bird sang."] * 4
    assert all(branch.finish_reason is FinishReason.STOP for branch in generation.branches)


def test_where_there_is_no_other_way_a_phrase_is_let_be(engine: Engine) -> None:
    sampling = Sampling(seed=1, grammar='root ::= " The little fox slept."', banned_phrases=("little fox",))
    generation = written(engine, Request(PROMPT, n=2, sampling=sampling, stop=LONG, priority=Priority.NORMAL))
    assert [branch.text for branch in generation.branches] == [" The little fox slept."] * 2
    assert any(hit.tokens == 0 for hit in hits(generation))
