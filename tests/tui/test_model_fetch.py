"""Recommended models in the list of the app: fetched beside the writing, stopped, continued, used and kept.

The whole way in a terminal is in ``tests/terminal/test_recommended.py``.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.widgets import OptionList

from srbwriter import paths
from srbwriter.demo import bundled_model
from srbwriter.models import recommended
from srbwriter.models.recommended import RecommendedModel
from srbwriter.tui.dialogs.picker import Picker
from tests.fakes import hub
from tests.fakes.hub import Hub
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import opened

LIST = """
date = 2026-11-24
[[models]]
name = "Novelist 3B"
repository = "o/novelist-GGUF"
file = "novelist-Q4_K_M.gguf"
kind = "base"
machine = "4 GB"
size = 9_000_000
licence = "Apache-2.0"
context = 8192
memory = 200_000_000
note = "Writes whole chapters."
[models.pages]
[[models]]
name = "Colossus 900B"
repository = "o/colossus-GGUF"
file = "colossus.gguf"
kind = "base"
machine = "GPU"
memory = 900_000_000_000_000
[models.pages]
"""


@pytest.fixture(autouse=True)
def novelist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecommendedModel:
    """The one model of the list that fits this machine."""
    file = tmp_path / "recommended.toml"
    file.write_text(LIST, "utf-8")
    monkeypatch.setattr(recommended, "_FILE", file)
    return recommended.read_recommended().models[0]


@pytest.fixture
def our_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that holds the bundled model under the name of the recommended one."""
    with hub.running() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        running.repositories["o/novelist-GGUF"] = {"novelist-Q4_K_M.gguf": bundled_model().read_bytes()}
        yield running


def listed(bench: Bench) -> str:
    """The list of models as it is shown."""
    options = bench.app.screen.query_one("#picker-list", OptionList)
    return "\n".join(str(options.get_option_at_index(i).prompt) for i in range(options.option_count))


async def choose(bench: Bench, name: str = "novelist") -> None:
    bench.screen.run("model")
    await opened(bench, Picker)
    await bench.press(*name, "enter")


async def until(bench: Bench, pattern: str) -> None:
    """Wait until the line at the foot says what ``pattern`` describes."""
    while not re.search(pattern, bench.status):
        await bench.settle()


async def ended(bench: Bench) -> None:
    """Wait until the thread of the fetch has ended, and the writer has been told."""
    await asyncio.wait([asyncio.wrap_future(bench.app.fetch.result)])
    await bench.settle()


async def test_a_recommended_model_that_fits_is_fetched_loaded_and_kept(
    open_bench: OpenBench, our_hub: Hub, novelist: RecommendedModel
) -> None:
    async with open_bench() as bench:
        bench.session.hold_loads()
        bench.screen.run("model")
        await opened(bench, Picker)
        rows = listed(bench).splitlines()
        assert rows[0].startswith("storyteller") and len(rows) == 2
        assert rows[1] == "Novelist 3B  9 MB to fetch, base; for this machine. Writes whole chapters."
        await bench.press(*"novelist", "enter")
        await ended(bench)
        assert bench.session.loader.path == novelist.path and bench.session.text() == "It rained."
        assert not paths.overlay_file().exists(), "it is not known yet whether it can be loaded"
        await bench.press(*" Hard")
        bench.session.finish_loading()
        await bench.settle()
        assert "Novelist 3B writes from now on. ^n writes branches with it." in bench.said
        assert str(novelist.path) in paths.overlay_file().read_text("utf-8")
        assert bench.screen.editor.text == "It rained. Hard"
        bench.screen.run("model")
        await opened(bench, Picker)
        assert "Novelist 3B" not in listed(bench) and "novelist-Q4_K_M" in listed(bench)


async def test_a_fetch_is_stopped_and_continued_in_the_list(
    open_bench: OpenBench, our_hub: Hub, novelist: RecommendedModel
) -> None:
    our_hub.hold_after = 3_000_000
    async with open_bench() as bench:
        bench.session.hold_loads()
        await choose(bench)
        await until(bench, r"fetching Novelist 3B 3\d%")
        await bench.press(*" Hard")
        assert bench.screen.editor.text == "It rained. Hard", "the writer goes on meanwhile"
        bench.screen.run("model")
        await opened(bench, Picker)
        assert "9 MB, being fetched now; enter stops that" in listed(bench)
        await bench.press(*"novelist", "enter")
        await ended(bench)
        assert "The download of Novelist 3B was stopped. The downloaded part is kept; “Change" in bench.said
        assert "“Change the model” in the menu (^g) continues it." in bench.said
        our_hub.hold_after = None
        await choose(bench)
        await ended(bench)
        assert bench.session.loader.path == novelist.path
        start = our_hub.files_asked()[-1].headers["Range"]
        assert start != "bytes=0-" and our_hub.files_asked()[-1].headers["Range"].startswith("bytes=")


@pytest.mark.parametrize("trouble", ["offline", "gated"])
async def test_what_is_in_the_way_is_said_in_one_sentence(
    trouble: str, open_bench: OpenBench, our_hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trouble == "offline":
        monkeypatch.delenv("HF_ENDPOINT")
        monkeypatch.setattr("srbwriter.models.pull.ENDPOINT", f"http://127.0.0.1:{_closed_port()}")
    else:
        our_hub.gated = True
    async with open_bench(fake=True) as bench:
        await choose(bench)
        await ended(bench)
        last = bench.last_said
        assert last.startswith("Novelist 3B could not be fetched")
        assert last.count(". ") == 1 and "\n" not in last, last
        assert bench.session.engine_state == "READY" and bench.app.fetch.model is None


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
