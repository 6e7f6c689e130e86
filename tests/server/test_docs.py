"""The pages about HTTP: every line runs, on the bundled model, and every endpoint has one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine import Engine
from srbwriter.engine.compat import GONE
from srbwriter.server import Loaded, ServerSettings, app, start_in_thread
from srbwriter.server.dialects import ENDPOINTS
from srbwriter.server.dialects.openai import params as openai

DOCUMENT, DIALECTS = (Path(__file__).parents[2] / "docs" / name for name in ("http-api.md", "dialects.md"))
HOME = "http://localhost:9090"
METHODS = {"GET": r"curl (?!.*-X)(?!.* -d )", "POST": r"curl (?=.*( -d |-X POST))"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Engine.load(bundled_model()) as model:
        handle = start_in_thread(Loaded(model), ServerSettings(port=0, metrics=True, access_log=False))
        yield handle.url
        handle.stop(20)


def commands() -> list[str]:
    text = DOCUMENT.read_text("utf-8") + DIALECTS.read_text("utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.needs("bash", "curl")
def test_every_line_runs_and_answers_what_it_says(url: str, tmp_path: Path) -> None:
    lines = [line for line in commands() if "curl" in line]
    script = ["set -uo pipefail", "curl() { command curl -sS -m 60 -w '%{stderr}%{http_code}\\n' \"$@\"; }"]
    script += [line.replace(HOME, url) for line in commands()]
    (tmp_path / "run.sh").write_text("\n".join(script))
    done = subprocess.run(["bash", tmp_path / "run.sh"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    codes = done.stderr.split()
    assert len(codes) == len(lines), done.stderr
    for line, code in zip(lines, codes, strict=True):
        wanted = match[1] if (match := re.search(r"# (\d{3})$", line)) else "20[0-9]"
        assert re.fullmatch(wanted, code), f"{code}: {line}"


def test_the_client_of_a_websocket_runs(url: str, tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DIALECTS.read_text("utf-8"), re.S)
    (tmp_path / "client.py").write_text(example)
    command = [sys.executable, tmp_path / "client.py", url.removeprefix("http://")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_every_endpoint_has_a_line() -> None:
    text = "\n".join(commands())
    for row in (*ENDPOINTS, *app.PAGES, app.PAGE):
        method = METHODS.get(row.method, f"curl -X {row.method} ")
        shapes = [re.sub(r"\\\{[^}]*\\\}", r"[^/'\" ?]+", re.escape(path)) for path in row.paths]
        assert any(re.search(rf"{method}.*{HOME}{shape}(?=['\" ?]|$)", text, re.M) for shape in shapes), (
            row.paths
        )


def test_the_table_of_extras_is_the_programs_own() -> None:
    text = DOCUMENT.read_text("utf-8")
    refused = [name for gone in GONE if gone.treatment == "refused" for name in gone.names]
    rows = {"honoured": openai.HONOURED, "passed over": openai.IGNORED, "400 unless neutral": refused}
    for title, names in rows.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| {title} |"))
        assert re.findall(r"`(\w+)`", row) == list(names)
