"""Host memory smaller than what wants to run: requests wait until they fit, and little is evaluated twice."""

from __future__ import annotations

import pytest

from srbwriter.engine.types import EngineOptions, Request, Stop
from tests.fakes.shared_model import load_engine
from tests.sizes import some_of

from .support import GREEDY, exact_model

WORDS = "Once there was a fox who lived in a wood with many friends and a very big tree near the river. " * 4
REQUESTS, N = 4, 4


def write(host_bytes: int | None, n_ctx: int, prompt: int, tokens: int) -> tuple[list[list[str]], float]:
    """Texts of all requests, and how often each token of their prompts was evaluated."""
    options = EngineOptions(n_ctx=n_ctx, threads=1, max_branches=REQUESTS * N, host_bytes=host_bytes)
    with load_engine(exact_model(), options) as engine:
        words = engine.tokenize(WORDS)[:prompt]
        stop = Stop(max_tokens=tokens, ignore_eog=True)
        generations = [
            engine.submit(Request((first, *words), n=N, sampling=GREEDY, stop=stop))
            for first in range(1, REQUESTS + 1)
        ]
        texts = [generation.result(60) for generation in generations]
        return texts, engine.stats().prompt_rows / (REQUESTS * (prompt + 1))


@pytest.mark.parametrize("prompt, tokens", [(40, 24), (100, 40)], ids=["fits", "one request does not fit"])
@pytest.mark.parametrize("host_bytes", some_of([0, 4 << 10, 16 << 10, 64 << 10, 4 << 20], [0, 16 << 10]))
def test_a_prompt_is_evaluated_about_once_with_any_budget(host_bytes: int, prompt: int, tokens: int) -> None:
    _, evaluated = write(host_bytes, 256, prompt, tokens)
    assert evaluated <= 1.5


def test_waiting_changes_no_text() -> None:
    assert write(4 << 10, 256, 40, 24)[0] == write(None, 4096, 40, 24)[0]
