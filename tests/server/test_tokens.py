"""Tokens and the text that was published for them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.text import BranchText
from srbwriter.engine.types import Stop
from srbwriter.server.answers import Tokens, prompt_tokens
from tests.fakes.engine import BOS, FakeEngine

ENGINE = FakeEngine()
TEXT = st.text(st.sampled_from("aé🐈 catdogs.\n"), max_size=30)


@given(text=TEXT, stop=st.none() | st.text("cat. 🐈", min_size=1, max_size=4), group=st.integers(1, 5))
def test_tokens_join_to_the_published_text(text: str, stop: str | None, group: int) -> None:
    """However tokens are grouped into events, and whatever a stop string holds back or cuts off."""
    branch = BranchText(ENGINE.piece_table, Stop(strings=(stop,) if stop else ()))
    tokens, written, published = Tokens(ENGINE), [], ""
    ids = ENGINE.tokenize(text)
    pending: tuple[str, list[int]] = ("", [])
    ended = False
    for number, token in enumerate(ids):
        piece, hit = branch.feed(token)
        pending = (pending[0] + piece, [*pending[1], token])
        ended = hit is not None
        if ended or number % group == 0:
            written += tokens.feed(*pending, (), last=ended)
            published += pending[0]
            pending = ("", [])
        if ended:
            break
    if not ended:
        rest = pending[0] + branch.finish()
        written += tokens.feed(rest, pending[1], (), last=True)
        published += rest
    assert published == (text.split(stop)[0] if stop else text)
    assert "".join(entry.text for entry in written) == published
    starts = [entry.start for entry in written]
    assert starts == sorted(starts)


@given(text=TEXT)
def test_tokens_of_a_prompt_join_to_it_and_the_beginning_token_has_no_text(text: str) -> None:
    written = prompt_tokens(ENGINE, [BOS, *ENGINE.tokenize(text)], ())
    assert "".join(entry.text for entry in written) == text
    assert (written[0].id, written[0].text) == (BOS, "")
