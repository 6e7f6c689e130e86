"""Downloads models: from a repository of the Hugging Face hub, or from any address.

A hub is asked two things (a repository's list of files, and the files), through httpx, which is here anyway:
the hub's own library would add 27 MB and a second way to download. ``HF_ENDPOINT`` names another hub;
``HF_TOKEN`` is sent to the hub alone. A file appears under its name complete and checked, or not at all: an
incomplete download is kept in a part file beside the target, and the next attempt resumes at its end.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import shutil
import time
from collections.abc import Callable, Mapping
from io import BufferedRandom
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import quote

import httpx

from srbwriter import paths
from srbwriter.models.files import (
    DownloadError,
    Header,
    ModelsError,
    is_model,
    parse_header,
    part_names,
    parts_of,
    put_in_place,
    quantisation,
    read_header,
)
from srbwriter.models.fit import Run, memory_budget, need, size_words, suggest
from srbwriter.models.local import Wanted, matches, url_file
from srbwriter.models.recommended import RecommendedModel
from srbwriter.version import __version__

ENDPOINT = "https://huggingface.co"

ATTEMPTS = 5
"""How often in a row nothing may arrive before it is given up."""

FIRST_PAUSE = 1.0
"""Seconds before the second attempt; every further pause is twice as long."""

_SILENCE = httpx.Timeout(5, connect=15)
"""Seconds without a byte until the server is asked for the rest; a download is cancelled after as many."""

_CHUNK = 1 << 16
_HEAD_BYTES = 1 << 18  # of a file; they hold everything before the vocabulary
_SPARE = 1 << 26  # bytes of the disk that are left free


class Progress(Protocol):
    """Called with the file's name, the bytes so far, and the bytes in all (0: unknown).

    An exception from it, such as Cancelled, ends the download, which can be resumed later.
    """

    def __call__(self, name: str, done: int, total: int, /) -> None: ...


class RemoteModel(NamedTuple):
    """A model at the hub: its files with their addresses, its bytes, and those of memory it needs."""

    files: Mapping[str, str]
    size: int
    need: int = 0

    @property
    def path(self) -> str:
        return next(iter(self.files))

    @property
    def quantisation(self) -> str:
        return quantisation(self.path)


class Plan(NamedTuple):
    """What a pull will bring, out of what there is, and what suits this machine."""

    wanted: Wanted
    models: tuple[RemoteModel, ...]
    model: RemoteModel
    suggested: RemoteModel


def plan(wanted: Wanted, how_run: Callable[[Header | None], Run]) -> Plan:
    """Ask the hub what there is, and choose; ``how_run`` says how a model is run here. Raises ModelsError."""
    with _client() as client:
        models = _list_models(client, wanted.repo)
        header = _read_remote_header(client, models[0])
    run = how_run(header)
    models = [model._replace(need=need(header, model.size, run).total) for model in models]
    needs = {model.size: model.need for model in models}
    sizes = [(model.quantisation, model.size) for model in models]
    suggested = models[suggest(sizes, lambda size: needs[size] <= memory_budget())]
    return Plan(wanted, tuple(models), _choose(models, wanted) if wanted.what else suggested, suggested)


def fetch(plan: Plan, progress: Progress) -> Path:
    """Bring every file of the chosen model into the models folder; return the first. Raises ModelsError."""
    targets = {plan.wanted.folder / path: url for path, url in plan.model.files.items()}
    with _client() as client:
        for target, url in targets.items():
            _download(client, url, target, progress)
    return next(iter(targets))


def fetch_recommended(model: RecommendedModel, progress: Progress) -> Path:
    """Bring a recommended model into the models folder, continuing an interrupted download; return its file.

    Meant for a thread of an app: ``progress`` is called in that thread, often. After the last byte, computing
    the checksum takes a second or two for each gigabyte. Raises ModelsError.
    """
    if model.is_here:
        return model.path
    wanted = Wanted(model.repository, model.file)
    with _client() as client:
        remote = _choose(_list_models(client, wanted.repo), wanted)
    return fetch(Plan(wanted, (remote,), remote, remote), progress)


def fetch_url(url: str, progress: Progress) -> Path:
    """Bring the file at ``url`` into the models folder, unless it is there. Raises ModelsError."""
    target = url_file(paths.models_dir(), url)
    with _client() as client:
        _download(client, url, target, progress)
    return target


# ---- the hub


def _client() -> httpx.Client:
    """Return a client that follows the hub's redirects; httpx drops the token on the way to another host."""
    agent = {"User-Agent": f"srbwriter/{__version__}", "Accept-Encoding": "identity"}
    return httpx.Client(follow_redirects=True, timeout=httpx.Timeout(30, connect=15), headers=agent)


def _hub() -> str:
    return (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")


def _headers(url: str, bytes_wanted: str = "") -> dict[str, str]:
    """Return what a request carries: the token if it goes to the hub, and which bytes are wanted."""
    token, ours, other = os.environ.get("HF_TOKEN", "").strip(), httpx.URL(_hub()), httpx.URL(url)
    same = (ours.scheme, ours.host, ours.port) == (other.scheme, other.host, other.port)
    headers = {"Authorization": f"Bearer {token}"} if token and same else {}
    return {**headers, "Range": f"bytes={bytes_wanted}"} if bytes_wanted else headers


def _list_models(client: httpx.Client, repo: str) -> list[RemoteModel]:
    """Return the GGUF models of a repository that are whole, small ones first. Raises ModelsError."""
    hub = _hub()
    mirror = ", which HF_ENDPOINT names," if hub != ENDPOINT else ""
    url, sizes = f"{hub}/api/models/{repo}", dict[str, int]()
    try:
        answer = client.get(url, params={"blobs": "true"}, headers=_headers(url))
        if answer.is_error:
            raise _refusal(answer, f"{hub}/{repo}")
        document = cast("dict[str, Any]", answer.json())
        base = f"{hub}/{repo}/resolve/{quote(str(document['sha']))}"
        for row in cast("list[dict[str, Any]]", document["siblings"]):
            path = str(row["rfilename"])
            if ".." in PurePosixPath(path).parts or path.startswith("/") or "\\" in path:
                raise ValueError(path)
            sizes[path] = int((row.get("lfs") or row).get("size") or 0)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why, cure = str(error) or type(error).__name__, "correct or unset HF_ENDPOINT" * bool(mirror)
        cure = cure or "check the network"
        raise DownloadError(f"{hub}{mirror} does not answer ({why}) — {cure}, or try again later") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        cure = "HF_ENDPOINT names no hub: correct it or unset it" if mirror else "try again later"
        raise DownloadError(f"{hub}: the answer is no list of files — {cure}") from error
    found: list[RemoteModel] = []
    for path in map(PurePosixPath, filter(is_model, sizes)):
        names = [str(path.with_name(name)) for name in part_names(path.name)]
        if parts_of(path.name).number == 1 and all(name in sizes for name in names):
            files = {name: f"{base}/{quote(name)}" for name in names}
            found.append(RemoteModel(files, sum(sizes[name] for name in names)))
    if not found:
        raise ModelsError(f"{repo} holds no GGUF model — look for a repository whose name ends in GGUF")
    return sorted(found, key=lambda model: (model.size, model.path))


def _choose(models: list[RemoteModel], wanted: Wanted) -> RemoteModel:
    """Return the model named by its quantisation or its file. Raises ModelsError with those there are."""
    matching = matches([model.path for model in models], wanted.what)
    if len(matching) == 1:
        return models[matching[0]]
    if matching:
        several = ", ".join(models[index].path for index in matching)
        raise ModelsError(f"{wanted.repo} has several {wanted.what} — name one: {several}")
    listed = ", ".join(f"{model.quantisation or model.path} ({size_words(model.size)})" for model in models)
    raise ModelsError(f"{wanted.repo} has no {wanted.what} — there are {listed}")


def _read_remote_header(client: httpx.Client, model: RemoteModel) -> Header | None:
    """Read a header from the first bytes of a file that is not here yet; None if they do not tell."""
    url = model.files[model.path]
    try:
        head = client.get(url, headers=_headers(url, f"0-{_HEAD_BYTES - 1}")).content
        return parse_header(io.BytesIO(head), len(head), Path(model.path))
    except (httpx.HTTPError, ModelsError):
        return None


def _refusal(answer: httpx.Response, page: str) -> ModelsError:
    """Return the error for an answer with an error status; ``page`` is the repository or a file."""
    repository, is_file, _ = page.partition("/resolve/")
    status = answer.status_code
    if status == 403 or answer.headers.get("X-Error-Code") == "GatedRepo":
        cure = "accept its licence on that page, then set HF_TOKEN to your access token"
        return DownloadError(f"{repository}: {cure}")
    if status == 401:
        words = "there is no such repository, or it is private — check the name, or set HF_TOKEN"
        return ModelsError(f"{repository}: {words}")
    if status == 404:
        what = "file — check the name" if is_file else "repository — see `srbwriter models recommended`"
        return ModelsError(f"{page}: there is no such {what}")
    return DownloadError(f"{page}: the answer was {status} {answer.reason_phrase} — try again later")


# ---- one file from the network to the disk


def _download(client: httpx.Client, url: str, target: Path, progress: Progress) -> None:
    """Download ``url`` to ``target`` unless that is there, resuming an incomplete download.

    Raises ModelsError; then ``target`` does not exist.
    """
    if target.exists():
        return
    part = target.with_name(f".{target.name}.{hashlib.sha256(url.encode()).hexdigest()[:16]}.part")
    try:
        paths.make_folder(target.parent)
        with part.open("ab+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                words = "another process is fetching this file — wait for it"
                raise DownloadError(f"{part}: {words}") from None
            try:
                digest = _receive(client, url, file, target, progress)
            finally:
                if not file.seek(0, os.SEEK_END):  # nothing has arrived
                    part.unlink(missing_ok=True)
                    with contextlib.suppress(OSError):  # there are other files in it
                        part.parent.rmdir()
            os.fsync(file.fileno())
            if problem := _damage(file, part, target, digest):
                part.unlink()
                words = f"it arrived damaged: {problem}; it was deleted — fetch it again"
                raise DownloadError(f"{target.name}: {words}")
            with contextlib.suppress(FileExistsError):  # someone else brought it: the same bytes
                put_in_place(part, target)
            part.unlink(missing_ok=True)
    except OSError as error:
        raise DownloadError(f"{target}: {error.strerror or error}") from error


def _damage(file: BufferedRandom, part: Path, target: Path, digest: str) -> str:
    """Return what is wrong with a file that has arrived; "" if nothing is."""
    file.seek(0)
    if digest and hashlib.file_digest(file, "sha256").hexdigest() != digest:
        return "its checksum is not the announced one"
    try:
        if parts_of(target.name).number == 1:
            read_header(part)
    except ModelsError as error:
        return error.problem
    return ""


def _receive(client: httpx.Client, url: str, file: BufferedRandom, target: Path, progress: Progress) -> str:
    """Receive the rest of a file, with several attempts; return the checksum that was announced, or ""."""
    failures = total = 0
    while True:
        start = file.seek(0, os.SEEK_END)
        progress(target.name, start, total)
        try:
            wanted = _headers(url, f"{start}-" * bool(start))
            with client.stream("GET", url, headers=wanted, timeout=_SILENCE) as answer:
                status, where = answer.status_code, answer.headers.get("Content-Range", "")
                linked = {key: value for hop in answer.history for key, value in hop.headers.items()}
                digest = linked.get("x-linked-etag", "").strip('"')
                if status == 416 and where == f"bytes */{start}":  # all of it was here
                    return digest
                if answer.is_error and status not in (416, 429) and status < 500:
                    raise _refusal(answer, url)
                if not where.startswith(f"bytes {start}-") and status < 429:
                    file.truncate(0)  # another file, or a server that begins again
                    file.seek(0)
                if answer.is_error:
                    raise httpx.HTTPError(f"the answer was {status} {answer.reason_phrase}")
                length = answer.headers.get("Content-Length", "")
                total = file.tell() + int(length) if length.isdecimal() else 0
                missing, free = total - file.tell(), shutil.disk_usage(target.parent).free
                if missing + _SPARE > free:
                    words = f"{size_words(missing)} are to come, and {size_words(free)} are free — make room"
                    raise DownloadError(f"{target.parent}: {words}")
                for chunk in answer.iter_bytes(_CHUNK):
                    file.write(chunk)
                    progress(target.name, file.tell(), total)
            return digest if len(digest) == 64 else ""
        except httpx.HTTPError as error:
            failures = 1 if file.seek(0, os.SEEK_END) > start else failures + 1
            if failures >= ATTEMPTS:
                words = "what has arrived is kept, and fetching it again continues from there"
                raise DownloadError(f"{url}: {str(error) or type(error).__name__} — {words}") from error
            time.sleep(FIRST_PAUSE * 2 ** (failures - 1))
