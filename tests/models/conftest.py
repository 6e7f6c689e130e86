"""A hub of one's own for each test, and no token or cache of the person's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srbwriter.models import pull
from tests.fakes.hub import Hub, running


@pytest.fixture(autouse=True)
def no_settings_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once, and receive in portions that are smaller than the files of the tests."""
    monkeypatch.setattr(pull, "FIRST_PAUSE", 0)
    monkeypatch.setattr(pull, "_CHUNK", 512)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running() as started:
        monkeypatch.setenv("HF_ENDPOINT", started.url)
        yield started
