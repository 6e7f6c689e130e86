"""What vLLM's clients send to OpenAI's completions."""

from __future__ import annotations

from typing import Any

import httpx

from srbwriter.engine.types import Sampling
from tests.fakes.engine import FakeEngine

BODY: dict[str, Any] = {"model": "any", "prompt": "Once upon a time,", "max_tokens": 4}


def test_what_their_clients_send_is_read(client: httpx.Client, engine: FakeEngine) -> None:
    sent = {
        "min_p": 0.2, "top_k": 7, "repetition_penalty": 1.3, "min_tokens": 2, "ignore_eos": True,
        "stop_token_ids": [5], "include_stop_str_in_output": True, "skip_special_tokens": True,
        "typical": 0.7, "spaces_between_special_tokens": True, "early_stopping": False,
        "use_beam_search": False, "length_penalty": 1, "banned_strings": [], "speculative_ngram": True,
        "tfs": 1, "penalty_range": 33,
        "xtc_probability": 0.3, "nsigma": 1.5, "dry_range": 99, "request_id": "r", "priority": 3,
    }  # fmt: skip
    assert client.post("/v1/completions", json={**BODY, **sent}).status_code == 200
    asked = engine.submitted[-1]
    sampling = asked.sampling if isinstance(asked.sampling, Sampling) else asked.sampling[0]
    assert (sampling.min_p, sampling.top_k, sampling.repeat_penalty) == (0.2, 7, 1.3)
    assert (sampling.typical_p, sampling.repeat_last_n, sampling.top_n_sigma) == (0.7, 33, 1.5)
    assert (sampling.xtc_probability, sampling.dry_penalty_last_n) == (0.3, 99)
    stop = asked.stop
    assert not isinstance(stop, tuple)
    assert (stop.min_tokens, stop.token_ids, stop.include_string, stop.ignore_eog) == (2, (5,), True, True)


def test_vllms_log_probabilities_of_the_prompt_are_refused(client: httpx.Client) -> None:
    sent = {**BODY, "prompt": "Once upon a", "prompt_logprobs": 2}
    assert client.post("/v1/completions", json=sent).status_code == 400
    talk = {"messages": [{"role": "user", "content": "a"}], "prompt_logprobs": 1}
    assert client.post("/v1/chat/completions", json=talk).status_code == 400
