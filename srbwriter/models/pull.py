"""Downloads models: from a repository of the hub, or from any address.

Chooses the quantisation that fits this machine, and finds earlier downloads without the network. A file
appears under its name complete and checked, or not at all: an incomplete download is kept in a part file
beside the target, and the next attempt resumes at its end.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import socket
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from io import BufferedRandom
from pathlib import Path, PurePosixPath
from typing import Protocol

import httpx

from srbwriter import paths
from srbwriter.models.files import (
    BadModelFile,
    Cancelled,
    DamagedDownload,
    DownloadError,
    Header,
    Interrupted,
    NoSpace,
    hub_folder,
    parts_of,
    put_in_place,
    read_header,
)
from srbwriter.models.fit import Run, Wanted, memory_budget, need, size_words, suggest, url_file
from srbwriter.models.hub import Hub, RemoteModel, choose, refusal
from srbwriter.models.recommended import RecommendedModel
from srbwriter.version import __version__

HowRun = Callable[[Header | None], Run]
"""How a model of that header would be run on this machine."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pull will bring, out of what there is. ``needs`` are bytes of memory, in the same order."""

    wanted: Wanted
    models: tuple[RemoteModel, ...]
    needs: tuple[int, ...]
    chosen: int
    suggested: int

    @property
    def model(self) -> RemoteModel:
        return self.models[self.chosen]

    @property
    def need(self) -> int:
        """Bytes of memory that the chosen model takes."""
        return self.needs[self.chosen]


def plan(wanted: Wanted, how_run: HowRun) -> Plan:
    """Ask the hub what there is, and choose. Raises NoSuchModel or DownloadError."""
    with new_client() as client:
        hub = Hub(client)
        models = hub.models(wanted.repo)
        header = hub.header(models[0].files[0])
    run = how_run(header)
    needs = [need(header, model.size, run).total for model in models]
    by_size = dict(zip([model.size for model in models], needs, strict=True))
    budget = memory_budget()
    suggested = suggest(
        [(model.quantisation, model.size) for model in models], lambda size: by_size[size] <= budget
    )
    chosen = models.index(choose(models, wanted)) if wanted.what else suggested
    return Plan(wanted, tuple(models), tuple(needs), chosen, suggested)


def fetch(plan: Plan, progress: Progress) -> Path:
    """Bring every file of the chosen model into the models folder; returns the first.

    Files that are there are not fetched again. Raises DownloadError or NoSuchModel.
    """
    with new_client() as client:
        hub = Hub(client)
        return _fetch_model(plan.wanted.repo, plan.model, Fetcher(client, hub.headers, progress))


def fetch_recommended(
    model: RecommendedModel, progress: Progress, cancellation: Cancellation | None = None
) -> Path:
    """Bring a recommended model into the models folder, continuing an interrupted download; returns its file.

    Meant for a thread of an app: ``progress`` is called in that thread, often. After the last byte, computing
    the checksum takes a second or two for each gigabyte.

    Raises:
        Offline: the hub cannot be reached.
        MirrorUnreachable: the hub that ``HF_ENDPOINT`` names cannot be reached, or is no hub.
        GatedRepository: its licence has to be accepted first.
        MissingRepository, MissingFile: the hub has it no longer.
        NoSpace: the disk is too full; nothing has been fetched.
        Interrupted: the connection broke; what has arrived is kept.
        Cancelled: ``cancellation.cancel()`` was called; what has arrived is kept.
        DamagedDownload: the checksum is wrong; what arrived has been deleted.
        DownloadError: anything else that went wrong; the base of all these but the missing ones.
    """
    if model.is_here:
        return model.path
    cancellation = cancellation or Cancellation()
    with new_client() as client:
        hub = Hub(client)
        remote = choose(hub.models(model.repository), Wanted(model.repository, model.file))
        cancellation.check()
        return _fetch_model(model.repository, remote, Fetcher(client, hub.headers, progress, cancellation))


def _fetch_model(repo: str, model: RemoteModel, fetcher: Fetcher) -> Path:
    folder = hub_folder(paths.models_dir(), repo)
    targets = [folder.joinpath(*PurePosixPath(file.path).parts) for file in model.files]
    for file, target in zip(model.files, targets, strict=True):
        if not target.exists():
            fetcher.fetch(Source(file.url, file.size, file.sha256), target)
        elif not target.is_file() or target.stat().st_size != file.size:
            raise DownloadError(f"{target}: there is another file of this name — remove it and fetch again")
    return targets[0]


def fetch_url(url: str, progress: Progress) -> Path:
    """Bring the file at ``url`` into the models folder, unless a file of its name is there.

    Raises DownloadError or NoSuchModel.
    """
    target = url_file(paths.models_dir(), url)
    if not target.exists():
        with new_client() as client:
            hub = Hub(client)
            Fetcher(client, hub.headers, progress).fetch(_look(hub, url), target)
    return target


def _look(hub: Hub, url: str) -> Source:
    """What the server says of a file before it is fetched; servers that say nothing are believed later."""
    try:
        answer = hub.client.head(url, headers=hub.headers(url))
    except httpx.HTTPError:
        return Source(url)
    if answer.is_error:
        return Source(url)
    found = {key: value for hop in (*answer.history, answer) for key, value in hop.headers.items()}
    size = found.get("x-linked-size") or answer.headers.get("Content-Length", "")
    mark = (found.get("x-linked-etag") or found.get("etag", "")).removeprefix("W/").strip('"')
    is_digest = "x-linked-etag" in found and len(mark) == 64
    return Source(url, int(size) if size.isdecimal() else 0, mark if is_digest else "", mark)


# ---- one file from the network to the disk

ATTEMPTS = 5
"""How often in a row nothing may arrive before it is given up."""

FIRST_PAUSE = 1.0
"""Seconds before the second attempt; every further pause is twice as long."""

_CHUNK = 1 << 16
_SPARE = 1 << 26
"""Bytes of the disk that are left free."""


class Progress(Protocol):
    """Called with the file's name, the bytes so far, and the bytes in all (0: unknown).

    An exception from it ends the download, which can be resumed later.
    """

    def __call__(self, name: str, done: int, total: int, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a file. ``size`` 0 and empty texts are unknown; ``mark`` identifies the version."""

    url: str
    size: int = 0
    sha256: str = ""
    mark: str = ""


class Cancellation:
    """Ends a download from another thread.

    It ends at once while bytes are awaited, and otherwise when the server has answered (30 seconds at most).
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def cancel(self) -> None:
        """End the download; it raises Cancelled. What has arrived is kept."""
        self._event.set()
        with self._lock:
            self._hang_up()

    def check(self) -> None:
        """Raise Cancelled if the download has been cancelled."""
        if self._event.is_set():
            raise Cancelled(
                "the download was cancelled — what has arrived is kept, and fetching it again continues"
            )

    def wait(self, seconds: float) -> None:
        """Pause for that long; raises Cancelled as soon as the download is cancelled."""
        self._event.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def watch(self, answer: httpx.Response) -> Generator[None]:
        """Hang up on ``answer`` if the download is cancelled while it arrives."""
        stream = answer.extensions.get("network_stream")
        with self._lock:
            self._socket = stream.get_extra_info("socket") if stream else None
            if self._event.is_set():
                self._hang_up()
        try:
            yield
        finally:
            with self._lock:
                self._socket = None

    def _hang_up(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # the other side was quicker
                # The plain socket's method: a TLS socket's own would pull its state from under the reader.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def new_client() -> httpx.Client:
    """A client that follows the hub's redirects. httpx drops the token on the way to another host."""
    return httpx.Client(
        follow_redirects=True,
        timeout=httpx.Timeout(30, connect=15),
        headers={"User-Agent": f"srbwriter/{__version__}", "Accept-Encoding": "identity"},
    )


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches files with one client. ``headers`` gives what a request for a URL must carry."""

    client: httpx.Client
    headers: Callable[[str], dict[str, str]]
    progress: Progress
    cancellation: Cancellation = field(default_factory=Cancellation)

    def fetch(self, source: Source, target: Path) -> None:
        """Download ``source`` to ``target``, resuming an incomplete download.

        Raises DownloadError or NoSuchModel; then ``target`` does not exist.
        """
        identity = hashlib.sha256(repr((source.sha256 or source.url, source.size, source.mark)).encode())
        part = target.with_name(f".{target.name}.{identity.hexdigest()[:16]}.part")
        try:
            paths.make_folder(target.parent)
            with _alone(part) as file:
                with _left_clean(file, part):
                    self._receive_all(source, file, target)
                _check(source, file, part, target)
                with contextlib.suppress(FileExistsError):  # someone else brought it: the same bytes
                    put_in_place(part, target)
                part.unlink(missing_ok=True)
        except OSError as error:
            raise DownloadError(f"{target}: {error.strerror or error}") from error

    def _receive_all(self, source: Source, file: BufferedRandom, target: Path) -> None:
        failures = 0
        while True:
            start = file.seek(0, os.SEEK_END)
            if source.size and start == source.size:
                return
            self.cancellation.check()
            _check_room(source, start, target)
            try:
                return self._receive(source, file, start, target.name)
            except (httpx.HTTPError, _Busy) as error:
                self.cancellation.check()
                failures = 1 if file.seek(0, os.SEEK_END) > start else failures + 1
                if failures >= ATTEMPTS:
                    raise Interrupted(
                        f"{source.url}: {error or type(error).__name__} — "
                        "what has arrived is kept, and fetching it again continues from there"
                    ) from error
                self.cancellation.wait(FIRST_PAUSE * 2 ** (failures - 1))

    def _receive(self, source: Source, file: BufferedRandom, start: int, name: str) -> None:
        headers = self.headers(source.url)
        if start:
            headers["Range"] = f"bytes={start}-"
        with self.client.stream("GET", source.url, headers=headers) as answer:
            if answer.status_code == 429 or answer.status_code >= 500:
                raise _Busy(f"the answer was {answer.status_code} {answer.reason_phrase}")
            if answer.is_error and answer.status_code != 416:
                raise refusal(answer, source.url)
            if answer.headers.get("Content-Range", "").partition("-")[0] != f"bytes {start}":
                file.truncate(0)
                file.seek(0)
            if answer.status_code == 416:  # there is more here than the source has: begin again
                raise _Busy("the part that was here does not belong to it")
            total = source.size or _announced(answer, file.tell())
            with self.cancellation.watch(answer):
                for chunk in answer.iter_bytes(_CHUNK):
                    file.write(chunk)
                    self.cancellation.check()
                    self.progress(name, file.tell(), total)


class _Busy(Exception):
    """The server asks to be asked again."""


def _announced(answer: httpx.Response, start: int) -> int:
    length = answer.headers.get("Content-Length", "")
    return start + int(length) if length.isdecimal() else 0


@contextlib.contextmanager
def _alone(part: Path) -> Generator[BufferedRandom]:
    """Open the part file, locked against other writers."""
    with part.open("ab+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DownloadError(f"{part}: another process is fetching this file — wait for it") from None
        yield file


@contextlib.contextmanager
def _left_clean(file: BufferedRandom, part: Path) -> Generator[None]:
    """Remove a part, and a folder made for it, if nothing has arrived when the download is given up."""
    try:
        yield
    except BaseException:
        if not file.seek(0, os.SEEK_END):
            part.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # there are other files in it
                part.parent.rmdir()
        raise


def _check_room(source: Source, start: int, target: Path) -> None:
    missing, free = source.size - start, shutil.disk_usage(target.parent).free
    if missing + _SPARE > free:
        raise NoSpace(
            missing,
            free,
            f"{target.parent}: {size_words(missing)} are to come, and {size_words(free)} are free — "
            "make room",
        )


def _check(source: Source, file: BufferedRandom, part: Path, target: Path) -> None:
    """Raise DamagedDownload, and delete the part, unless it is what was announced."""
    try:
        file.flush()
        os.fsync(file.fileno())
        size = file.seek(0, os.SEEK_END)
        if source.size and size != source.size:
            raise _Wrong(f"{size} bytes arrived instead of {source.size}")
        file.seek(0)
        if source.sha256 and hashlib.file_digest(file, "sha256").hexdigest() != source.sha256:
            raise _Wrong("its checksum is not the announced one")
        if parts_of(target.name).number == 1:
            _check_header(part)
    except _Wrong as error:
        part.unlink()
        raise DamagedDownload(
            f"{target.name}: it arrived damaged: {error}; it was deleted — fetch it again"
        ) from None


def _check_header(part: Path) -> None:
    try:
        read_header(part)
    except BadModelFile as error:
        raise _Wrong(error.problem) from None


class _Wrong(Exception):
    """What arrived is not what was announced."""
