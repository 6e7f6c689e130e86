"""Clients that people have: the official openai package, httpx asynchronously, curl, and the examples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from srbwriter.engine.types import NativeError
from tests.fakes.engine import FakeEngine

if TYPE_CHECKING:  # takes a second to import
    import openai

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def sdk(client: httpx.Client) -> Iterator[openai.OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="x", max_retries=0, timeout=20) as sdk:
        yield sdk


def test_openai_completions(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: f" {branch} cat"
    model = sdk.models.list().data[0].id
    answer = sdk.completions.create(model=model, prompt="Once", n=3, max_tokens=24, logprobs=3, seed=1)
    assert [choice.text for choice in answer.choices] == [" 0 cat", " 1 cat", " 2 cat"]
    assert answer.usage is not None and answer.usage.prompt_tokens == 2
    known = answer.choices[0].logprobs
    assert known is not None and known.tokens is not None and "".join(known.tokens) == " 0 cat"


def test_openai_streams(sdk: openai.OpenAI) -> None:
    stream = sdk.completions.create(
        model="m", prompt="Once", n=2, max_tokens=4, stream=True, stream_options={"include_usage": True}
    )
    texts, usage = ["", ""], None
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
        usage = chunk.usage or usage
    assert texts == [" there was a cat"] * 2
    assert usage is not None and usage.completion_tokens == 8


def test_openai_chat(sdk: openai.OpenAI) -> None:
    message = {"role": "user", "content": "Tell me a story."}
    answer = sdk.chat.completions.create(model="m", messages=[message], n=2, max_tokens=3)  # type: ignore[list-item]
    assert [c.message.content for c in answer.choices] == [" there was a"] * 2
    stream = sdk.chat.completions.create(model="m", messages=[message], max_tokens=3, stream=True)  # type: ignore[list-item]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == " there was a"


def test_openai_errors(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    import openai

    with pytest.raises(openai.BadRequestError, match="available context size"):
        sdk.completions.create(model="m", prompt=" cat" * 600)
    with pytest.raises(openai.BadRequestError, match="between 1 <= value <= 64"):
        sdk.completions.create(model="m", prompt="a", n=100)
    engine.hold = 1
    stream = sdk.completions.create(model="m", prompt="a", stream=True)
    next(iter(stream))
    engine.generations[-1].abandon(NativeError("llama_decode", 2))
    with pytest.raises(openai.APIError, match="llama_decode"):
        list(stream)


# ---- the examples, each as a person would run it


def run(command: list[str], url: str, stdin: str = "") -> str:
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=EXAMPLES,
        env={"SRBWRITER_URL": url.rstrip("/"), "PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example(client: httpx.Client) -> None:
    out = run([sys.executable, "branches.py", "Once upon a time,", "3"], str(client.base_url))
    assert [line for line in out.splitlines() if line.startswith("── ")] == [f"── {k}" for k in range(3)]
    assert out.count("there was a cat.") == 3


@pytest.mark.needs("node")
def test_the_javascript_helper(client: httpx.Client) -> None:
    script = (
        "import { completion } from './completion.js';"
        "let text = '';"
        "const chunks = completion('Once', { n_predict: 4 }, process.env.SRBWRITER_URL);"
        "for await (const chunk of chunks) text += chunk.content;"
        "console.log(JSON.stringify(text));"
    )
    out = run(["node", "--input-type=module", "-e", script], str(client.base_url))
    assert json.loads(out) == " there was a cat"


@pytest.mark.needs("bash", "curl")
def test_the_curl_example(client: httpx.Client) -> None:
    assert '"event": "done"' in run(["bash", "curl.sh"], str(client.base_url))
