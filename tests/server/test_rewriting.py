"""Variants of a passage over a socket, with the bundled model."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from srbwriter.engine import Engine
from srbwriter.server.dialects.srb import rewriting
from srbwriter.session.framing import wish_prompt
from tests.fakes.engine import FakeEngine

BEFORE, PASSAGE = "Once upon a time, a little fox lived in the wood.", " One day he went to the river."
AFTER = " The frog was happy to see him, and they played in the water all day long."
BODY: dict[str, Any] = {"before": BEFORE, "passage": PASSAGE, "after": AFTER, "n": 3, "seed": 5}


@pytest.mark.parametrize("fills", [True, False])
def test_variants_are_ranked_by_the_text_after_them(
    real: httpx.Client, model: Engine, monkeypatch: pytest.MonkeyPatch, fills: bool
) -> None:
    monkeypatch.setattr(rewriting, "fills_gap", lambda checks: fills)
    reply = real.post("/srb/v1/rewrite", json=BODY).json()
    assert reply["filled"] is fills and reply["unranked"] == "" and reply["passage"]["text"] == PASSAGE
    following = model.tokenize_continuation(AFTER)
    for one in reply["variants"]:
        assert model.detokenize(one["ids"]).startswith(one["text"][:-1])
        ids = [*model.tokenize(BEFORE, add_bos=True), *one["ids"]]
        body = {"prompt": [*ids, *following], "from": len(ids), "k": 0}
        logprobs = [token["logprob"] for token in real.post("/srb/v1/next", json=body).json()["prompt"]]
        assert one["fit"] == pytest.approx(sum(logprobs) / len(following), abs=5e-2)
    assert len({one["text"] for one in reply["variants"]}) > 1
    assert reply["completion_tokens"] >= sum(len(one["ids"]) for one in reply["variants"])


def test_at_the_end_of_a_text_they_are_not_ranked(real: httpx.Client) -> None:
    reply = real.post("/srb/v1/rewrite", json={**BODY, "after": "", "max_tokens": 4}).json()
    assert not reply["filled"] and reply["unranked"] == "no text follows the passage"
    assert [one["fit"] for one in reply["variants"]] == [None] * 3 and reply["passage"]["fit"] is None
    assert reply["completion_tokens"] <= 12


def test_variants_follow_a_wish(real: httpx.Client, model: Engine) -> None:
    reply = real.post("/srb/v1/rewrite", json={**BODY, "wish": "more rain"}).json()
    asked = wish_prompt(BEFORE, "more rain", PASSAGE, AFTER)
    assert "more rain" in asked and PASSAGE.strip() in asked and not reply["filled"]
    assert reply["prompt_tokens"] == len(model.tokenize(asked, add_bos=True))
    assert all(one["fit"] is not None for one in reply["variants"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"passage": " "}, "no words"),
        ({"passage": "a" * 5000}, "passage"),
        ({"wish": "a" * 600}, "wish"),
        ({"n": 0}, "n"),
        ({"before": 3}, "text"),
    ],
)
def test_what_is_no_passage_is_refused(client: httpx.Client, change: dict[str, Any], words: str) -> None:
    answer = client.post("/srb/v1/rewrite", json={**BODY, **change})
    assert answer.status_code == 400 and words in answer.json()["error"]


def test_nothing_of_it_runs_on(client: httpx.Client, engine: FakeEngine) -> None:
    def kept() -> set[str]:
        return {one["id"] for one in client.get("/srb/v1/requests").json()["data"]}

    before = kept()
    assert client.post("/srb/v1/rewrite", json=BODY).status_code == 200
    assert engine.stats().live_branches == 0 and kept() <= before
