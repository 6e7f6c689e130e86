"""SillyTavern itself: its own back end, run without a browser, speaks to this server in every way it knows.

Runs with ``pytest -m slow``. Skipped where SillyTavern is not installed: name the folder of the npm
package in ``SILLYTAVERN``, or install it with ``npm install --global sillytavern``.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.engine import FakeEngine

from .conftest import Serve

TYPES = ("koboldcpp", "ooba", "llamacpp", "generic")
SETTINGS = {
    # what its interface sends: names of its own, nulls, values that are off, a list written as text
    "max_new_tokens": 8, "max_tokens": 8, "n_predict": 8, "temperature": 0.8, "top_p": 0.9, "min_p": 0.05,
    "top_k": 40, "typical_p": 1,
    "typical": 1, "top_a": 0, "tfs": 1, "epsilon_cutoff": 0, "eta_cutoff": 0,
    "rep_pen": 1.1, "repetition_penalty": 1.1, "repeat_penalty": 1.1, "rep_pen_range": 0,
    "repetition_penalty_range": 0,
    "frequency_penalty": 0, "presence_penalty": 0, "no_repeat_ngram_size": 0, "penalty_alpha": 0,
    "num_beams": 1,
    "length_penalty": 1, "min_length": 0, "encoder_rep_pen": 1, "do_sample": True, "add_bos_token": True,
    "ban_eos_token": False, "skip_special_tokens": True, "mirostat_mode": 0, "mirostat_tau": 5,
    "mirostat_eta": 0.1,
    "guidance_scale": 1, "negative_prompt": "", "grammar_string": "", "grammar": "", "json_schema": None,
    "dry_multiplier": 0, "dry_base": 1.75, "dry_allowed_length": 2, "dry_sequence_breakers": '["\\n", ":"]',
    "dynamic_temperature": False, "dynatemp_low": 1, "dynatemp_high": 1, "smoothing_factor": 0,
    "xtc_threshold": 0.1, "xtc_probability": 0, "nsigma": 0, "seed": -1, "truncation_length": 400,
    "banned_strings": [],
    "samplers": ["penalties", "dry", "top_k", "adaptive_p", "unheard_of", "temperature"], "logit_bias": [],
    "custom_token_bans": "", "banned_tokens": "", "speculative_ngram": False, "logprobs": 2,
    "stopping_strings": ["\nUser:"], "stop": ["\nUser:"], "model": "any", "sampler_seed": None,
}  # fmt: skip


pytestmark = [pytest.mark.slow, pytest.mark.needs("node")]


@pytest.fixture(scope="module")
def package() -> Path:
    """The folder of the npm package; skips the test where there is none."""
    folder = Path(os.environ.get("SILLYTAVERN", ""))
    if "SILLYTAVERN" not in os.environ and shutil.which("npm"):
        command = ["npm", "root", "--global"]
        root = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        folder = Path(root, "sillytavern")
    if not (folder / "server.js").is_file():
        pytest.skip("SillyTavern is not here: npm install --global sillytavern, or SILLYTAVERN=folder")
    return folder


@pytest.fixture(scope="module")
def tavern(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[httpx.Client]:
    """Its back end; the compiled page is kept in the package's cache if SILLYTAVERN_DATA names a folder."""
    data = Path(os.environ.get("SILLYTAVERN_DATA") or tmp_path_factory.mktemp("tavern"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        "node", "server.js", "--port", str(port), "--dataRoot", str(data / "data"), "--configPath",
        str(data / "config.yaml"), "--disableCsrf", "--whitelist", "false", "--listen", "false",
        "--browserLaunchEnabled", "false",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=package, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if "is listening on" in line:
            break
    else:
        pytest.fail("".join(said[-20:]))
    drained = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            yield http
    finally:
        process.terminate()
        process.wait(20)
        drained.wait(20)
        process.stdout.close()


class Tavern:
    """Its routes, as its page calls them."""

    def __init__(self, http: httpx.Client, url: str, kind: str) -> None:
        self.http, self.url, self.kind = http, url, kind
        self.where = {"api_type": kind, "api_server": url if kind != "kobold" else f"{url}/api"}

    def status(self) -> httpx.Response:
        route = "kobold" if self.kind == "kobold" else "text-completions"
        return self.http.post(f"/api/backends/{route}/status", json=self.where)

    @property
    def generate_route(self) -> str:
        return f"/api/backends/{'kobold' if self.kind == 'kobold' else 'text-completions'}/generate"

    def body(self, stream: bool, **more: Any) -> dict[str, Any]:
        own = {"max_length": 8, "max_context_length": 400, "gui_settings": False, "streaming": stream,
               "can_abort": True, "stop_sequence": ["\nUser:"], "sampler_order": [6, 0, 1, 3, 4, 2, 5],
               "use_default_badwordsids": False, "singleline": False}  # fmt: skip
        settings = own if self.kind == "kobold" else {**SETTINGS, "stream": stream}
        return {**settings, **self.where, "prompt": "Once upon a time,", **more}

    def generate(self, **more: Any) -> dict[str, Any]:
        answer = self.http.post(self.generate_route, json=self.body(False, **more))
        assert answer.status_code == 200 and "error" not in answer.json(), answer.text
        return answer.json()

    def count(self, text: str) -> httpx.Response:
        if self.kind == "kobold":
            body = {"text": text, "url": self.where["api_server"]}
            return self.http.post("/api/tokenizers/remote/kobold/count", json=body)
        body = {"text": text, "url": self.url, "model": "any", "api_type": self.kind}
        return self.http.post("/api/tokenizers/remote/textgenerationwebui/encode", json=body)


def received(kind: str, answer: Any) -> str:
    """The text that its page takes out of an answer."""
    if kind == "kobold":
        return answer["results"][0]["text"]
    if kind == "llamacpp":
        return answer["content"]
    return answer["choices"][0]["text"]


def streamed(kind: str, frame: dict[str, Any]) -> str:
    if kind == "kobold":
        return frame["token"]
    return frame["content"] if kind == "llamacpp" else frame["choices"][0]["text"]


@pytest.fixture(params=["kobold", *TYPES])
def st(request: pytest.FixtureRequest, tavern: httpx.Client, serve: Serve) -> Tavern:
    return Tavern(tavern, serve().url, request.param)


def test_it_connects_writes_streams_and_counts_tokens(st: Tavern) -> None:
    answer = st.status().json()
    if st.kind == "kobold":
        assert answer == {"koboldUnitedVersion": "1.2.5", "koboldCppVersion": "KoboldCpp", "model": "fake"}
    else:
        assert answer["result"] == "fake"
    if st.kind == "ooba":
        assert st.status().headers["x-supports-tokenization"] == "true"
    if st.kind in ("llamacpp", "koboldcpp"):
        props = st.http.post("/api/backends/text-completions/props", json=st.where).json()
        assert len(props["chat_template_hash"]) == 64
    assert received(st.kind, st.generate()) == " there was a cat. The cat sat"
    with st.http.stream("POST", st.generate_route, json=st.body(True)) as answer:
        assert answer.status_code == 200
        data = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    assert ("[DONE]" in data) == (st.kind not in ("kobold", "llamacpp"))
    frames = [json.loads(one) for one in data if one != "[DONE]"]
    assert "".join(streamed(st.kind, frame) for frame in frames) == " there was a cat. The cat sat"
    counted = st.count("Once upon a time")
    if st.kind == "generic":  # it has no tokenizer, and guesses
        assert counted.status_code == 400
    else:
        special = st.kind in ("kobold", "ooba")
        assert counted.json()["count"] == len(counted.json()["ids"]) == 4 + special
    if st.kind == "llamacpp":
        texts = [one["content"] for one in st.generate(n=3)]
        assert texts == [" there was a cat. The cat sat"] * 3


def test_it_stops_and_hears_a_refusal_in_words(st: Tavern, engine: FakeEngine) -> None:
    """Its page closes the connection; it tells the server, or closes its own."""
    engine.hold = 2
    with st.http.stream("POST", st.generate_route, json=st.body(True)) as answer:
        assert next(answer.iter_lines()) is not None
    assert engine.cancel_seen.wait(60)
    engine.hold = None
    body = st.body(False, prompt="Once " * 3000, truncation_length=None)
    answer = st.http.post(st.generate_route, json=body).json()
    message = answer["error"]["message"] if st.kind == "kobold" else answer["response"]
    assert answer["error"] and "context" in message
