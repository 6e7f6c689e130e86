"""Saved sessions belong to keys: nobody reads, overwrites or finds the files of another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from srbwriter.engine.types import InvalidRequest
from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .test_keys import KEYS


class KeepingEngine(FakeEngine):
    """Keeps sessions as lists of token ids."""

    missing: Mapping[str, str] = {}

    def save_session(self, path: Path, ids: Sequence[int], *scope: object) -> tuple[int, int]:
        path.write_text(json.dumps([*ids]))
        return len(ids), path.stat().st_size

    def load_session(self, path: Path, *scope: object) -> list[int]:
        try:
            return json.loads(path.read_text())
        except ValueError:
            raise InvalidRequest("session", f"{path} is no saved session") from None

    def pin(self, name: str, ids: Sequence[int], *scope: object) -> None: ...

    def unpin(self, name: str) -> None: ...


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    fake = KeepingEngine()
    yield fake
    fake.close()


class Writer:
    """A client with a key, over HTTP."""

    def __init__(self, url: str, key: str = "") -> None:
        self.url, self.headers = url, {"Authorization": f"Bearer {key}"} if key else {}

    def post(self, path: str, **body: object) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, headers=self.headers, timeout=20)

    def write(self, slot: int, prompt: str) -> int:
        """Have a branch written in a slot; its tokens, those of the prompt included."""
        answer = self.post("/completion", prompt=prompt, n_predict=3, id_slot=slot).json()
        return answer["tokens_evaluated"] + answer["tokens_predicted"]

    def act(self, slot: int, action: str, name: str) -> httpx.Response:
        return self.post(f"/slots/{slot}?action={action}", filename=name)


def session_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_keys_have_files_of_their_own_under_the_same_name(serve: Serve, tmp_path: Path) -> None:
    url = serve(api_keys=KEYS, slot_save_path=tmp_path).url
    anna, ben, chief = (Writer(url, key) for key in ("s1", "s2", "s3"))
    longer = anna.write(0, "Once upon a time there was a cat")
    assert anna.act(0, "save", "tale").json()["n_saved"] == longer
    (file,) = session_files(tmp_path)
    before = file.read_bytes()
    assert "s1" not in str(file.relative_to(tmp_path)).split("-")
    for other in (ben, chief):
        assert other.act(1, "restore", "tale").status_code == 400
        shorter = other.write(1, "The dog")
        assert other.act(1, "save", "tale").json()["n_saved"] == shorter < longer
        assert other.act(1, "restore", "tale").json()["n_restored"] == shorter
        assert chief.act(1, "erase", "").status_code == 200
    assert file.read_bytes() == before and len(session_files(tmp_path)) == 3
    assert anna.act(2, "restore", "tale").json()["n_restored"] == longer


def test_a_restore_that_is_refused_leaves_the_slot_as_it_is(
    serve: Serve, engine: FakeEngine, tmp_path: Path
) -> None:
    writer = Writer(serve(slot_save_path=tmp_path).url)
    tokens = writer.write(0, "Once")
    writer.act(0, "save", "tale")
    (file,) = session_files(tmp_path)
    engine.load_session = lambda *_: file.unlink() or [1, 2]  # it is gone before its size is known
    assert writer.act(0, "restore", "tale").status_code == 400
    assert writer.act(0, "erase", "").json()["n_erased"] == tokens
