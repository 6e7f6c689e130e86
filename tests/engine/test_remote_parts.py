"""What an engine elsewhere is made of: tokens made of letters, words out of errors."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.remote import vocabulary
from srbwriter.engine.remote.branch import RemoteRequest
from srbwriter.engine.remote.dialects import Completion, Rewound, Srb, Tokens
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.remote.transport import Transport, from_answer, own_words
from srbwriter.engine.remote.vocabulary import PIECES
from srbwriter.engine.types import Cut, Request, Sampling, Stop

from .peers import OPTIONS, connected, served
from .test_backend import PROMPT, WAIT, spelt, until


@given(st.text(st.characters(blacklist_categories=("Cs",))))
def test_letters_are_read_and_written_without_loss(text: str) -> None:
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text
    assert all(0 <= token < vocabulary.SIZE < 2**31 for token in ids)
    assert vocabulary.encode(text) == ids


def test_an_id_that_is_no_letter_is_refused() -> None:
    for token in (2**31 - 1, 0xD800, 0x110000 + 54):
        with pytest.raises(ValueError, match="stands for no text"):
            vocabulary.piece(token)
    assert vocabulary.decode(vocabulary.encode("a\ud800b")) == "a?b"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "the words", "code": 400}},
        {"error": "the words"},
        {"detail": {"msg": "the words", "type": "x"}},
        {"detail": [{"loc": ["body"], "msg": "the words"}]},
        {"object": "error", "message": "the words"},
        "the words",
    ],
)
def test_their_own_words_are_found(body: object) -> None:
    assert own_words(json.dumps(body).encode()) == "the words"


def test_a_page_is_no_words() -> None:
    assert own_words(b"<html><body>502</body></html>") == ""
    error = from_answer("http://host", 502, {}, b"<html>x</html>")
    assert str(error) == "http://host: it failed (HTTP 502)" and error.again


@pytest.mark.parametrize(("header", "wait"), [("7", 7.0), ("0.5", 0.5), ("99999", 120.0), ("soon", 0.0)])
def test_retry_after_is_heeded_within_reason(header: str, wait: float) -> None:
    assert from_answer("http://host", 429, {"retry-after": header}, b"").wait == wait


def test_banned_phrases_are_passed_on_to_those_that_know_them() -> None:
    sampling = Sampling(banned_phrases=("all at once", "suddenly"))
    asked = Completion("ab", sampling, 1, 2, 8, 0, False, Request("ab"))
    there = Srb(Transport(RemoteOptions("http://there")), {"id": "theirs"})
    assert there.encode(asked)[1]["banned_phrases"] == [["all at once", "suddenly"]] * 2
    plain = asked._replace(sampling=Sampling())
    assert "banned_phrases" not in there.encode(plain)[1]


def test_a_branch_that_is_taken_back_over_there_is_taken_back_here() -> None:
    """By a phrase that is banned, or by somebody else who steers it."""
    with Engine.load(bundled_model(), OPTIONS) as engine, served(engine) as url, connected(url) as here:
        generation = here.submit(Request("Once", n=2, stop=Stop(max_tokens=300, ignore_eog=True)))
        until(generation, lambda: len(generation.branches[0].ids) >= 20)
        [theirs] = engine._generations  # pyright: ignore[reportPrivateUsage]
        theirs.branches[0].rewind(tokens=8)
        theirs.wait(WAIT)
        generation.wait(WAIT)
        assert any(isinstance(event, Cut) for event in theirs.log)
        for mine, there in zip(generation.branches, theirs.branches, strict=True):
            assert mine.text == there.text
        spelt(here, generation)


def test_branches_are_drawn_together_over_there() -> None:
    wide = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=3)
    asked = Request(PROMPT, n=4, siblings="distinct", stop=Stop(max_tokens=1), sampling=wide)
    alone = dataclasses.replace(asked, siblings="independent")
    with Engine.load(bundled_model(), OPTIONS) as engine, served(engine) as url, connected(url) as here:

        def begun(request: Request) -> int:
            return len({branch.text for branch in here.submit(request).wait(WAIT).branches})

        assert begun(asked) == 4 > begun(alone)


def written(*events: Tokens | Rewound, logprobs: int | None = None) -> Branch:
    """A branch to which these events of another srbwriter come."""
    generation = Generation(1, Request("Once", logprobs=logprobs), lambda command: None)
    request = RemoteRequest(generation)
    writer = request.add_branch(Sampling(), Stop(max_tokens=None, strings=("hare!",)), 1, PIECES)
    writer.begin_answer(lambda _: None)
    for event in events:
        if isinstance(event, Rewound):
            writer.rewound(event.chars, event.tokens)
        else:
            writer.write(event)
    branch = writer.branch
    assert len(branch.ids) == len(branch.buffer.ends)
    return branch


def test_words_that_are_held_back_here_and_taken_back_there_are_not_shown() -> None:
    begun, held, fox = Tokens(0, "It is "), Tokens(0, "a har"), Tokens(0, "fox")
    assert written(begun, held).text == "It is a "
    for rewound, text in ((Rewound(0, 8, 3), "It is a fox"), (Rewound(0, 6, 2), "It is fox")):
        branch = written(begun, held, rewound, fox)
        assert branch.text == text == vocabulary.decode(branch.ids)


def test_a_log_probability_stands_at_the_beginning_of_its_word() -> None:
    """A token of the server is one value, whatever ids stand for its text; bytes come before their text."""
    events = Tokens(0, " unbelievable", (-2.0,)), Tokens(0, "", (-1.0,)), Tokens(0, "\u00e9", (-0.5,))
    branch = written(*events, logprobs=0)
    assert [one.logprob for one in branch.logprobs] == [-2.0, -math.inf, -math.inf, -1.5]
    assert len(branch.ids) == 4


def test_a_branch_goes_on_from_words_that_came_after_their_tokens() -> None:
    """Another srbwriter sends the words that a ban held back at the end of a branch, behind their tokens."""
    sampling = Sampling(temperature=0.0, banned_phrases=("there was a little girl named Zzz",))
    asked = Request("Once upon a time,", sampling=sampling, stop=Stop(max_tokens=4))
    with Engine.load(bundled_model(), OPTIONS) as engine, served(engine) as url, connected(url) as here:
        generation = here.submit(asked).wait(WAIT)
        [branch] = generation.branches
        assert branch.text == " there was a little"
        branch.extend(4)
        generation.wait(WAIT)
        assert branch.text.startswith(" there was a little girl")
        spelt(here, generation)
        branch.rewind(chars=len(branch.text) - len(" there wa"))
        generation.wait(WAIT)
        spelt(here, generation)
