"""One file from the network to the disk: whole, checked and under its name, or not at all.

What has arrived is kept in a part file beside the target, named after what it will be, and the next attempt
goes on from its end. Knows HTTP and files; what is fetched, and why, is decided above.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Protocol

import httpx

from srbwriter import __version__
from srbwriter.models.errors import BadModelFile, DownloadError
from srbwriter.models.header import read_header
from srbwriter.models.hub import refusal
from srbwriter.models.machine import size_words
from srbwriter.models.names import parts_of
from srbwriter.models.placing import place

ATTEMPTS = 5
"""How often in a row nothing may arrive before it is given up."""

FIRST_PAUSE = 1.0
"""Seconds before the second attempt; every further pause is twice as long."""

_CHUNK = 1 << 20
_SPARE = 1 << 26
"""Bytes of the disk that are left free."""


class Progress(Protocol):
    """Told the file's name, the bytes there are, and how many there will be (0: unknown).

    What it raises ends the download, which can be gone on with later.
    """

    def __call__(self, name: str, done: int, total: int, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Source:
    """Where a file comes from. ``size`` 0 and empty texts are unknown; ``mark`` tells versions apart."""

    url: str
    size: int = 0
    sha256: str = ""
    mark: str = ""


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

    def fetch(self, source: Source, target: Path) -> None:
        """Bring ``source`` to ``target``, going on from what is there of it.

        Raises DownloadError or NoSuchModel, in words; ``target`` does not exist then.
        """
        identity = hashlib.sha256(repr((source.sha256 or source.url, source.size, source.mark)).encode())
        part = target.with_name(f".{target.name}.{identity.hexdigest()[:16]}.part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _alone(part) as file:
                self._receive_all(source, file, target)
                _check(source, file, part, target)
                with contextlib.suppress(FileExistsError):  # someone else brought it: the same bytes
                    place(part, target)
                part.unlink(missing_ok=True)
        except OSError as error:
            raise DownloadError(f"{target}: {error.strerror or error}") from error

    def _receive_all(self, source: Source, file: BufferedRandom, target: Path) -> None:
        failures = 0
        while True:
            start = file.seek(0, os.SEEK_END)
            if source.size and start == source.size:
                return
            _check_room(source, start, target)
            try:
                return self._receive(source, file, start, target.name)
            except (httpx.HTTPError, _Busy) as error:
                failures = 1 if file.seek(0, os.SEEK_END) > start else failures + 1
                if failures >= ATTEMPTS:
                    raise DownloadError(
                        f"{source.url}: {error or type(error).__name__} — "
                        "what has arrived is kept; the same command goes on from there"
                    ) from error
                time.sleep(FIRST_PAUSE * 2 ** (failures - 1))

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
            for chunk in answer.iter_bytes(_CHUNK):
                file.write(chunk)
                self.progress(name, file.tell(), total)


class _Busy(Exception):
    """The server asks to be asked again."""


def _announced(answer: httpx.Response, start: int) -> int:
    length = answer.headers.get("Content-Length", "")
    return start + int(length) if length.isdigit() else 0


@contextlib.contextmanager
def _alone(part: Path) -> Generator[BufferedRandom]:
    """The part file, open, for nobody else to write to."""
    with part.open("ab+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DownloadError(f"{part}: another process is fetching this file — wait for it") from None
        yield file


def _check_room(source: Source, start: int, target: Path) -> None:
    missing, free = source.size - start, shutil.disk_usage(target.parent).free
    if missing + _SPARE > free:
        raise DownloadError(
            f"{target.parent}: {size_words(missing)} are to come, and {size_words(free)} are free — make room"
        )


def _check(source: Source, file: BufferedRandom, part: Path, target: Path) -> None:
    """Raise DownloadError, and delete the part, unless it is what was announced."""
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
        raise DownloadError(
            f"{target.name}: it arrived damaged: {error}; it was deleted — fetch it again"
        ) from None


def _check_header(part: Path) -> None:
    try:
        read_header(part)
    except BadModelFile as error:
        raise _Wrong(error.problem) from None


class _Wrong(Exception):
    """What arrived is not what was announced."""
