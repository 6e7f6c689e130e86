"""A recommended model comes from a hub on this machine: cut, resumed, cancelled, refused and checked."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import httpx
import pytest

from srbwriter.models import (
    Cancelled,
    GatedRepository,
    MirrorUnreachable,
    ModelsError,
    Offline,
    RecommendedModel,
    Transfer,
    TransferMeter,
    pull,
)
from srbwriter.models.pull import Cancellation, fetch_recommended
from srbwriter.models.transfer import time_words
from tests.fakes.hub import Hub
from tests.models.gguf_files import gguf

REPO = "maker/novelist-GGUF"
FILE = "novelist-Q4_K_M.gguf"
DATA = gguf(weights=200_000)
MODEL = RecommendedModel("Novelist", REPO, FILE, "base", "4 GB", size=len(DATA))


@pytest.fixture
def novelist(hub: Hub) -> Hub:
    hub.repositories[REPO] = {FILE: DATA, "novelist-Q4_K_S.gguf": gguf(weights=9)}
    return hub


def silent(name: str, done: int, total: int) -> None:
    pass


def cancels_at(size: int, cancellation: Cancellation) -> Callable[[str, int, int], None]:
    def progress(name: str, done: int, total: int) -> None:
        if done >= size:
            cancellation.cancel()

    return progress


def beginnings(hub: Hub) -> list[int]:
    """Where each request for the file began, but for those that look at its header."""
    ranges = [asked.headers["Range"] or "bytes=0-" for asked in hub.files_asked()]
    return [int(text.removeprefix("bytes=").removesuffix("-")) for text in ranges]


# ---- cut, resumed, cancelled


def test_a_model_comes_with_progress_and_is_not_fetched_twice(novelist: Hub) -> None:
    reports: list[tuple[str, int, int]] = []
    assert fetch_recommended(MODEL, lambda *news: reports.append(news)) == MODEL.path
    assert MODEL.path.read_bytes() == DATA
    assert reports[-1] == (FILE, len(DATA), len(DATA)) and len(reports) > 10
    novelist.asked.clear()
    assert fetch_recommended(MODEL, silent) == MODEL.path and not novelist.asked


def test_a_cancelled_download_is_kept_and_continues(novelist: Hub) -> None:
    cancellation = Cancellation()
    with pytest.raises(Cancelled, match="what has arrived is kept"):
        fetch_recommended(MODEL, cancels_at(60_000, cancellation), cancellation)
    kept = MODEL.arrived
    assert kept >= 60_000 and not MODEL.is_here
    novelist.asked.clear()
    assert fetch_recommended(MODEL, silent, Cancellation()).read_bytes() == DATA
    assert beginnings(novelist) == [kept]


def test_cancelling_needs_no_further_byte(novelist: Hub) -> None:
    novelist.hold_after = 30_000
    cancellation, arrived = Cancellation(), Event()

    def progress(name: str, done: int, total: int) -> None:
        if done > 29_000:
            arrived.set()

    with ThreadPoolExecutor(1) as threads:
        fetching = threads.submit(fetch_recommended, MODEL, progress, cancellation)
        assert novelist.held.wait(20) and arrived.wait(20)
        cancellation.cancel()
        with pytest.raises(Cancelled):
            fetching.result(10)
    assert MODEL.arrived > 20_000


def test_a_pause_between_attempts_can_be_cancelled(novelist: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "FIRST_PAUSE", 60)
    novelist.cut_after = [20_000]
    cancellation = Cancellation()
    pause = cancellation.wait

    def wait(seconds: float) -> None:
        assert seconds == 60
        cancellation.cancel()
        pause(seconds)

    monkeypatch.setattr(cancellation, "wait", wait)
    with pytest.raises(Cancelled):
        fetch_recommended(MODEL, silent, cancellation)
    assert MODEL.arrived > 15_000


# ---- refused: a type and one sentence each


def refused(kind: type[ModelsError]) -> str:
    with pytest.raises(kind) as caught:
        fetch_recommended(MODEL, silent)
    assert type(caught.value) is kind and not MODEL.is_here
    words = str(caught.value)
    assert "\n" not in words and ". " not in words, "one sentence"
    return words


def test_a_gated_repository_names_its_page(novelist: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    novelist.gated = True
    page = f"{novelist.url}/{REPO}"
    assert refused(GatedRepository) == (
        f"{page}: accept its licence on that page, then set HF_TOKEN to your access token"
    )
    monkeypatch.setenv("HF_TOKEN", "not accepted yet")
    with pytest.raises(GatedRepository) as caught:
        fetch_recommended(MODEL, silent)
    assert caught.value.page == page


def test_a_mirror_that_is_no_hub_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, lambda request: httpx.Response(200, content=b"<html>log in</html>"))
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.example")
    assert "HF_ENDPOINT names no hub" in refused(MirrorUnreachable)


def test_no_network_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Name or service not known")

    answer_with(monkeypatch, unreachable)
    assert refused(Offline) == (
        "https://huggingface.co does not answer (Name or service not known) — check the network and try again"
    )


def answer_with(monkeypatch: pytest.MonkeyPatch, handler: Callable[[httpx.Request], Any]) -> None:
    transport = httpx.MockTransport(handler)
    monkeypatch.setattr(pull, "new_client", lambda: httpx.Client(transport=transport))


# ---- speed and time left


def test_speed_is_that_of_the_last_seconds() -> None:
    meter = TransferMeter()
    assert meter.record(1_000, 100_000, 0.0).speed is None, "what was here before is no speed"
    assert meter.record(3_000, 100_000, 2.0).speed == 1_000
    for second in range(3, 40):
        moment = meter.record(3_000 + 500 * (second - 2), 100_000, float(second))
    assert moment.speed == pytest.approx(500, rel=0.01)
    assert moment.seconds_left == pytest.approx((100_000 - moment.done) / 500, rel=0.01)
    assert meter.record(0, 100_000, 41.0).speed is None, "it began again"
    stalled = meter.record(0, 100_000, 46.0)
    assert (stalled.speed, stalled.seconds_left) == (0, None)


def test_a_moment_in_words() -> None:
    for moment, words in (
        (Transfer(1_200_000_000, 4_700_000_000, 12_000_000), "1.2 GB of 4.7 GB · 12 MB/s · 5 min left"),
        (Transfer(5_000, 0, 1_000), "5 KB · 1 KB/s"),
        (Transfer(5_000, 10_000), "5 KB of 10 KB"),
        (Transfer(10_000, 10_000, 1_000), "10 KB of 10 KB · 1 KB/s"),
    ):
        assert str(moment) == words
    times = {0.4: "0 s", 59.4: "59 s", 59.9: "1 min", 3_599: "1 h", 7_800: "2 h 10 min"}
    assert {seconds: time_words(seconds) for seconds in times} == times
