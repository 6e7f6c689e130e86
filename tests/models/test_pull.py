"""Models come from a hub on this machine: chosen, resumed, checked, and never half there."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest

from srbwriter import paths
from srbwriter.models import pull
from srbwriter.models.files import DownloadCancelled, DownloadError, ModelsError
from tests.fakes.hub import Hub
from tests.models.gguf_files import gguf

REPO = "maker/novelist-GGUF"
FILES = {
    "novelist-Q4_K_M.gguf": gguf(weights=4_000),
    "novelist-Q8_0.gguf": gguf(weights=8_000),
    "novelist-F16.gguf": gguf(weights=16_000),
    "big/novelist-Q5_0-00001-of-00002.gguf": gguf(weights=2_500),
    "big/novelist-Q5_0-00002-of-00002.gguf": b"GGUF the second part" + bytes(2_500),
    "mmproj-novelist-F16.gguf": gguf(weights=10),
}
Q8 = "novelist-Q8_0.gguf"


@pytest.fixture
def novelist(hub: Hub) -> Hub:
    hub.repositories[REPO] = FILES
    return hub


def silent(name: str, done: int, total: int) -> None:
    pass


def bring(what: str = "Q8_0") -> Path:
    return pull.fetch(f"{REPO}:{what}", silent)


def here() -> set[str]:
    top = paths.models_dir()
    return {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()}


def address(hub: Hub, name: str = Q8) -> str:
    return f"{hub.url}/{REPO}/resolve/main/{name}"


def test_a_model_arrives_whole_in_the_folder_of_its_repository_once(novelist: Hub) -> None:
    reports: list[tuple[str, int, int]] = []
    file = pull.fetch(f"{REPO}:Q8_0", lambda *news: reports.append(news))
    assert file == paths.models_dir() / REPO / Q8 and file.read_bytes() == FILES[Q8]
    size = len(FILES[Q8])
    assert [done for _, done, _ in reports] == sorted({done for _, done, _ in reports}) and len(reports) > 2
    assert reports[-1] == (Q8, size, size) and here() == {f"{REPO}/{Q8}"}
    novelist.asked.clear()
    assert bring() == file and not novelist.files_asked()


def test_the_parts_of_a_split_model_come_together(novelist: Hub) -> None:
    assert bring("Q5_0").name == "novelist-Q5_0-00001-of-00002.gguf"
    assert here() == {f"{REPO}/big/novelist-Q5_0-0000{n}-of-00002.gguf" for n in (1, 2)}


def test_an_interrupted_download_goes_on_where_it_stopped(novelist: Hub) -> None:
    def stop(name: str, done: int, total: int) -> None:
        if done > 3_000:
            raise DownloadCancelled("stopped")

    with pytest.raises(DownloadCancelled):
        pull.fetch(f"{REPO}/{Q8}", stop)
    [part] = (paths.models_dir() / REPO).iterdir()
    kept = part.stat().st_size
    assert kept > 3_000 and not (paths.models_dir() / REPO / Q8).exists()
    novelist.asked.clear()
    assert pull.fetch(f"{REPO}/{Q8}", silent).read_bytes() == FILES[Q8]
    assert [asked.headers["Range"] for asked in novelist.files_asked()] == [f"bytes={kept}-"]


def test_a_dead_line_or_a_busy_hub_is_asked_again_and_a_dead_one_given_up(novelist: Hub) -> None:
    for cuts, statuses, ranges, asked in (
        ([2_000, 1_000, 10], [], True, 4), ([], [503, 429], True, 3), ([2_000], [], False, 2)
    ):  # fmt: skip
        novelist.asked.clear()
        novelist.cut_after, novelist.statuses, novelist.ranges = list(cuts), list(statuses), ranges
        assert bring().read_bytes() == FILES[Q8]
        assert len(novelist.files_asked()) == asked
        shutil.rmtree(paths.models_dir())
    novelist.statuses = [503] * pull.ATTEMPTS
    with pytest.raises(DownloadError, match="503 .*fetching it again continues from there"):
        bring()


def test_a_damaged_file_never_gets_its_name(novelist: Hub) -> None:
    novelist.flipped = {Q8}
    for fetch in (bring, lambda: pull.fetch(address(novelist), silent)):
        with pytest.raises(DownloadError, match="checksum .*fetch it again"):
            fetch()
        assert here() == set(), "the damaged part is gone, or every further attempt would fail as well"
    novelist.flipped = set()
    assert bring().read_bytes() == FILES[Q8]


def test_a_refused_download_leaves_no_model(novelist: Hub) -> None:
    novelist.statuses = [403]
    with pytest.raises(ModelsError):
        bring()
    assert not [path for path in paths.models_dir().rglob("*.gguf")]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (f"{REPO}:Q3_K", "has no Q3_K — name one of its files: novelist-Q4_K_M.gguf, novelist-Q8_0.gguf"),
        ("maker/none", "maker/none: there is no such file"),
        ("maker/plain", "holds no GGUF model"),
        (f"{REPO}/none.gguf", "there is no such file"),
        ("novelist", "expected OWNER/REPO.*`srbwriter models recommended` lists"),
        ("../x", "expected OWNER/REPO"),
        ("a/b/c", "expected OWNER/REPO"),
        ("http://host/", "expected the address of a GGUF file"),
        ("ftp://host/m.gguf", "expected the address of a GGUF file"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(novelist: Hub, wanted: str, words: str) -> None:
    novelist.repositories["maker/plain"] = {"model.safetensors": b"x"}
    with pytest.raises(ModelsError, match=words):
        pull.fetch(wanted, silent)


def test_the_forms_of_a_name(novelist: Hub) -> None:
    file = paths.models_dir() / REPO / Q8
    for name in (f"{REPO}/{Q8}", f"{REPO}:q8_0", address(novelist)):
        assert pull.fetch(name, silent) == file
    novelist.repositories["maker/other"] = {"other.gguf": gguf()}
    assert pull.fetch(REPO, silent).name == "novelist-Q4_K_M.gguf"


def test_the_token_goes_to_the_hub_and_to_nobody_else(novelist: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    novelist.token = "secret"
    with pytest.raises(ModelsError, match="or it is private — check the name, or set HF_TOKEN"):
        bring()
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert bring().exists()
    assert not [asked for asked in novelist.asked if asked.by_storage and asked.headers["Authorization"]]


def test_a_gated_repository_names_its_page(novelist: Hub) -> None:
    novelist.gated = True
    words = f"{novelist.url}/{REPO}: accept its licence on that page, then set HF_TOKEN to your access token"
    with pytest.raises(DownloadError, match=words):
        bring()


def test_a_hub_that_does_not_answer_or_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match="127.0.0.1:9 lists no files .*HF_ENDPOINT"):
        bring()
    page = httpx.MockTransport(lambda request: httpx.Response(200, content=b"<html>log in</html>"))
    monkeypatch.setattr(pull, "_client", lambda: httpx.Client(transport=page))
    with pytest.raises(DownloadError, match="lists no files .*HF_ENDPOINT"):
        bring()
