"""Two processes with two models behind the example of a front, each as a person would run it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from srbwriter.demo import bundled_model
from tests.engine.toy_models import make_qwen

EXAMPLES = Path(__file__).parents[2] / "examples"
Start = Callable[..., str]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Start a program, and give the address that it says it listens on."""
    running: list[subprocess.Popen[str]] = []

    def run(*command: Any) -> str:
        process = subprocess.Popen(
            [sys.executable, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        running.append(process)
        assert process.stdout
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"listening on (http://\S+)", line):
                return found[1]
        raise AssertionError("".join(said))

    yield run
    for process in running:
        process.terminate()
    for process in running:
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def urls(start: Start, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two servers: the bundled model under another name, and a toy."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copy(bundled_model(), folder / "small.gguf")
    make_qwen(folder / "toy.gguf")
    flags = ("-m", "srbwriter", "--serve", "--port", "0", "--ctx-size", "512", "--gpu-layers", "0")
    found = [start(*flags, "-m", folder / f"{name}.gguf", "--alias", name) for name in ("small", "toy")]
    for url in found:
        while httpx.get(f"{url}/health", timeout=60).status_code == 503:
            pass
    return found


@pytest.fixture(scope="module")
def front(start: Start, urls: list[str]) -> str:
    """One address for both, by their names and by a name that both have, and for a server that is gone."""
    small, large = urls
    reply = (f"small={small}", f"toy={large}", f"both={small}", f"both={large}", "gone=http://127.0.0.1:9")
    return start(EXAMPLES / "router.py", "--port", "0", *reply)


def ask(url: str, prompt: str, **more: Any) -> dict[str, Any]:
    body = {"prompt": prompt, "n_predict": 4, "ignore_eos": True, **more}
    return httpx.post(f"{url}/completion", json=body, timeout=120).json()


def test_the_model_chooses_the_server(front: str) -> None:
    for name in ("small", "toy"):
        assert ask(front, "Once", model=name)["model"] == name
        assert httpx.get(f"{front}/props", params={"model": name}).json()["model_alias"] == name
    assert ask(front, "Once")["model"] == "small"
    refused = httpx.post(f"{front}/completion", json={"model": "other", "prompt": "Once"})
    assert refused.status_code == 404 and "small, toy" in refused.text
    refused = httpx.get(f"{front}/props", params={"model": "gone"})
    assert refused.status_code == 502 and "gone" in refused.text


def test_a_text_stays_with_the_server_that_read_its_beginning(front: str) -> None:
    texts = [
        "The fox went out on a winter's night, and prayed for the moon to give him light. ",
        "A long time ago there was a king who had three sons, and none of them would be king. ",
    ]
    first = [ask(front, text, model="both")["model"] for text in texts]
    assert sorted(first) == ["small", "toy"], "texts that begin differently are spread"
    for turn in range(3):
        texts = [f"{text}And then it was day {turn}. " for text in texts]
        answers = [ask(front, text, model="both") for text in reversed(texts)][::-1]
        assert [answer["model"] for answer in answers] == first
        assert all(answer["timings"]["cache_n"] > 0 for answer in answers)
