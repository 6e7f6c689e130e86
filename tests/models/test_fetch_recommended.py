"""A recommended model comes from a hub on this machine: cut, resumed, cancelled, refused and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from srbwriter.models import (
    Cancelled,
    GatedRepository,
    MirrorUnreachable,
    ModelsError,
    RecommendedModel,
    pull,
)
from srbwriter.models.pull import Cancellation, fetch_recommended
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


def answer_with(monkeypatch: pytest.MonkeyPatch, handler: Callable[[httpx.Request], Any]) -> None:
    transport = httpx.MockTransport(handler)
    monkeypatch.setattr(pull, "new_client", lambda: httpx.Client(transport=transport))


# ---- speed and time left
