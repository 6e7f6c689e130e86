"""The pages about HTTP: every line runs, on the bundled model."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import srbwriter.demo
from srbwriter.engine import limits
from srbwriter.server import Loaded, ServerSettings, start_in_thread
from srbwriter.server.dialects import srb
from tests.fakes.shared_model import load_engine

DOCUMENT, DIALECTS = (Path(__file__).parents[2] / "docs" / name for name in ("http-api.md", "dialects.md"))
HOME = "http://localhost:9090"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with load_engine(Path(srbwriter.demo.__file__).with_name("storyteller.gguf")) as model:
        handle = start_in_thread(Loaded(model), ServerSettings(port=0, metrics=True, access_log=False))
        yield handle.url
        handle.stop(20)


def blocks() -> list[tuple[str, str]]:
    """The code of both pages as (language, text)."""
    text = DOCUMENT.read_text("utf-8") + DIALECTS.read_text("utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)


def commands() -> list[str]:
    shell = [text for language, text in blocks() if language == "sh"]
    return [line for block in shell for line in block.splitlines() if line.strip()]


class Answer(NamedTuple):
    """What a line of the pages was answered."""

    line: str
    status: int
    media: str
    body: str

    @property
    def values(self) -> list[Any]:
        """The JSON of the answer, or of each event of a stream; ``[DONE]`` stays text."""
        if self.media == "application/json":
            return [json.loads(self.body)]
        return events(self.body)


def events(text: str) -> list[Any]:
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [value if value == "[DONE]" else json.loads(value) for value in data]


CURL = """
set -uo pipefail
echo 0 > count
curl() {
  local n; read -r n < count; n=$((n + 1)); echo $n > count
  command curl -sS -m 60 -D $n.head "$@" | tee $n.body
}
"""


@pytest.fixture(scope="module")
def ran(url: str, tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """The answers of every line, in the order of the pages."""
    folder = tmp_path_factory.mktemp("docs")
    script = CURL + "\n".join(line.replace(HOME, url) for line in commands())
    (folder / "run.sh").write_text(script)
    done = subprocess.run(["bash", "run.sh"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stderr
    lines = [line for line in commands() if "curl" in line]
    assert int((folder / "count").read_text()) == len(lines)
    found: list[Answer] = []
    for number, line in enumerate(lines, 1):
        head, *headers = (folder / f"{number}.head").read_text().splitlines()
        (media,) = [h.partition(": ")[2] for h in headers if h.lower().startswith("content-type")] or [""]
        body = (folder / f"{number}.body").read_text("utf-8", "replace")
        found.append(Answer(line, int(head.split()[1]), media.partition(";")[0], body))
    return found


@pytest.mark.needs("bash", "curl")
def test_every_line_is_answered_as_it_says(ran: list[Answer]) -> None:
    for answer in ran:
        wanted = match[1] if (match := re.search(r"# (\d{3})$", answer.line)) else "20[0-9]"
        assert re.fullmatch(wanted, str(answer.status)), answer


def documented() -> Iterator[tuple[str, str, str]]:
    """The last line of a block whose answer stands right below it, the answer's language, and the answer."""
    text = DOCUMENT.read_text("utf-8")
    for shell, language, answer in re.findall(
        r"^```sh\n((?:(?!```).*\n)+)```\n\n```(json)?\n((?:(?!```).*\n)+)```$", text, re.M
    ):
        yield [line for line in shell.splitlines() if "curl" in line][-1], language, answer


MAPS = {"metadata", "lacks", "top_logprobs"}
"""Objects whose keys are data."""


FACTS = {
    "description", "architecture", "vocab_type", "n_vocab", "n_ctx", "n_ctx_train", "n_embd", "n_params",
    "size", "ftype", "vocab", "max_n", "max_model_len", "owned_by", "engine_state", "version",
}  # fmt: skip
"""Fields whose value is the same in every run."""


def alike(reply: Any, value: Any) -> bool:
    """Whether a documented answer and a real one have the same fields, and the same facts in them.

    Null and nothing are like anything.
    """
    if reply is None or value is None or reply == [] or value == []:
        return True
    if isinstance(reply, dict) and isinstance(value, dict):
        return reply.keys() == value.keys() and all(
            name in MAPS or (reply[name] == value[name] if name in FACTS else alike(reply[name], value[name]))
            for name in reply
        )
    if isinstance(reply, list) and isinstance(value, list):
        return all(any(alike(one, other) for other in value) for one in reply)
    numbers = (int, float)
    return type(reply) is type(value) or (isinstance(reply, numbers) and isinstance(value, numbers))


@pytest.mark.needs("bash", "curl")
def test_documented_answers_are_the_servers(ran: list[Answer]) -> None:
    answers = {answer.line: answer for answer in ran}
    for line, language, text in documented():
        reply = [json.loads(text)] if language == "json" else events(text)
        assert reply, line
        for value in reply:
            assert any(alike(value, other) for other in answers[line].values), (line, value)


SETTINGS = ServerSettings()
FIGURES = (
    f"the head did not come within {SETTINGS.head_seconds:.0f} seconds, or the body within "
    f"{SETTINGS.body_seconds:.0f}; it is larger than {SETTINGS.max_body >> 20} MiB",
    f"after {srb.DEFAULT_STOP.max_tokens} tokens, and there are `--n` branches",
    f"likeliest next tokens ({srb.USUAL} by default)",
    f"or up to {limits.TEXTS} of either",
    f"At most {SETTINGS.max_requests} requests are answered at once",
)


def test_figures_are_the_programs_own() -> None:
    text = " ".join(DOCUMENT.read_text("utf-8").split())
    assert [figure for figure in FIGURES if figure not in text] == []
