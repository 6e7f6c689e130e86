"""What a prompt of ids or with media means to the engine; and fields that mean little."""

from __future__ import annotations

from typing import Any

import httpx

from tests.fakes.engine import FakeEngine

SHORT = {"max_tokens": 2}


def test_a_prompt_of_ids_is_taken_as_it_is(client: httpx.Client, engine: FakeEngine) -> None:
    cases: tuple[tuple[Any, bool], ...] = (
        ("Once", True), ([256, 257], False), (["Once", 257], False), ({"prompt_string": "Once"}, True),
    )  # fmt: skip
    for path in ("/completion", "/v1/completions", "/srb/v1/completions"):
        for prompt, begun in cases:
            assert client.post(path, json={"prompt": prompt, **SHORT}).status_code == 200
            request = engine.submitted[-1]
            assert request.add_bos is begun, (path, prompt)
            if isinstance(prompt, list):  # a text in front of ids begins as texts do
                assert (request.prompt[0] == engine.bos) is isinstance(prompt[0], str)
