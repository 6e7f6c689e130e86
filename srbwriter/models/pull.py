"""Downloads models: from a repository of the Hugging Face hub, or from any address.

Uses httpx, which is here anyway: the hub's own library would add 27 MB. ``HF_ENDPOINT`` names another hub;
``HF_TOKEN`` is sent to the hub alone. A file appears under its name complete and checked, or not at all: an
incomplete download is kept in a part file beside the target, and the next attempt resumes at its end.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import httpx

from srbwriter import paths
from srbwriter.models.files import DownloadError, ModelsError, is_model, part_names, part_of, read_header
from srbwriter.version import __version__

ENDPOINT = "https://huggingface.co"

ATTEMPTS = 5
"""How often in a row nothing may arrive before it is given up."""

FIRST_PAUSE = 1.0
"""Seconds before the second attempt; every further pause is twice as long."""

_SILENCE = httpx.Timeout(5, connect=15)
"""Seconds without a byte until the server is asked for the rest; a download is cancelled after as many."""

_CHUNK = 1 << 16


Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the file's name, the bytes so far, and the bytes in all (0: unknown).

An exception from it, such as Cancelled, ends the download, which can be resumed later.
"""


def fetch(name: str, progress: Progress) -> Path:
    """Bring every file of a model into the models folder; return the first. Raises ModelsError.

    May run on a thread of an app: ``progress`` is called there, often. After the last byte, computing the
    checksum takes a second or two for each gigabyte.

    Args:
        name: ``OWNER/REPO/FILE``, ``OWNER/REPO:QUANT`` or ``OWNER/REPO``, or the address of a file.
        progress: called with the bytes so far.
    """
    url = name if "://" in name else _hub_address(name)
    url = re.sub(r"^(https://huggingface\.co/[^/]+/[^/]+)/blob/", r"\1/resolve/", url)  # the page of a file
    in_hub = re.fullmatch(rf"[^?#]*/{_REPOSITORY}/resolve/[^/]+/([^?#]+)", url)
    file = PurePosixPath(unquote(in_hub[2] if in_hub else urlsplit(url).path.rpartition("/")[2]))
    if not url.startswith(("http://", "https://")) or not is_model(file.name) or ".." in file.parts:
        raise ModelsError(f"{name}: expected the address of a GGUF file, {_FORMS}")
    folder = paths.models_dir() / (in_hub[1] if in_hub else "")
    beside, rest = url.partition("?")[0].rpartition("/")[0], url.partition("?")[2]
    for part in part_names(file.name):
        address = f"{beside}/{quote(part)}" + f"?{rest}" * bool(rest)
        _download(address, folder / file.with_name(part), progress)
    return folder / file.with_name(part_names(file.name)[0])


# ---- the hub

_REPOSITORY = r"([\w-][\w.-]*/[\w-][\w.-]*)"
_FORMS = "or OWNER/REPO, OWNER/REPO:QUANT, OWNER/REPO/FILE — `srbwriter models recommended` lists models"
_QUANT = "Q4_K_M"  # where none is named, as in llama.cpp


def _hub_address(name: str) -> str:
    """Return the address of a file that is named by its repository. Raises ModelsError."""
    named = re.fullmatch(rf"{_REPOSITORY}(?::([\w-]+)|/(.+\.gguf))?", name.removeprefix("hf.co/"))
    if named is None:
        raise ModelsError(f"{name}: expected {_FORMS.removeprefix('or ')}")
    repo, quant, file = named.groups()
    return f"{_hub()}/{repo}/resolve/main/{quote(file or _find_file(repo, quant or _QUANT))}"


def _find_file(repo: str, quant: str) -> str:
    """Return the file of a repository with this quantisation. Raises ModelsError, with those there are."""
    hub = _hub()
    cure = "check the network" if hub == ENDPOINT else "correct or unset HF_ENDPOINT, which names it"
    url = f"{hub}/api/models/{repo}"
    try:
        with _client() as client:
            answer = client.get(url, headers=_headers(url))
        if answer.is_error:
            raise _refusal(answer, f"{hub}/{repo}")
        files = [str(row["rfilename"]) for row in answer.json()["siblings"]]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError, KeyError) as error:
        why = str(error) or type(error).__name__
        raise DownloadError(f"{hub} lists no files ({why}) — {cure}, or try again later") from error
    models = [file for file in files if is_model(file) and part_of(PurePosixPath(file).name)[1] == 1]
    if not models:
        raise ModelsError(f"{repo} holds no GGUF model — look for a repository whose name ends in GGUF")
    wanted = re.compile(rf"(?<![a-z0-9]){re.escape(quant)}(?![a-z0-9_])", re.IGNORECASE)
    if not (found := list(filter(wanted.search, models))):
        raise ModelsError(f"{repo} has no {quant} — name one of its files: {', '.join(models)}")
    return min(found, key=len)


def _client() -> httpx.Client:
    """Return a client that follows the hub's redirects; httpx drops the token on the way to another host."""
    agent = {"User-Agent": f"srbwriter/{__version__}", "Accept-Encoding": "identity"}
    return httpx.Client(follow_redirects=True, timeout=httpx.Timeout(30, connect=15), headers=agent)


def _hub() -> str:
    return (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")


def _headers(url: str) -> dict[str, str]:
    """Return the token if a request goes to the hub."""
    token = os.environ.get("HF_TOKEN", "").strip()
    return {"Authorization": f"Bearer {token}"} if token and url.startswith(f"{_hub()}/") else {}


def _refusal(answer: httpx.Response, page: str) -> ModelsError:
    """Return the error for an answer with an error status; ``page`` is the repository or a file."""
    status, repository = answer.status_code, page.partition("/resolve/")[0]
    if status == 403 or answer.headers.get("X-Error-Code") == "GatedRepo":
        cure = "accept its licence on that page, then set HF_TOKEN to your access token"
        return DownloadError(f"{repository}: {cure}")
    if status in (401, 404):
        words = "there is no such file, or it is private — check the name, or set HF_TOKEN"
        return ModelsError(f"{page}: {words}")
    return DownloadError(f"{page}: the answer was {status} {answer.reason_phrase} — try again later")


# ---- one file from the network to the disk


def _download(url: str, target: Path, progress: Progress) -> None:
    """Download ``url`` to ``target`` unless that is there, resuming an incomplete download.

    Raises ModelsError; then ``target`` does not exist.
    """
    if target.exists():
        return
    part = target.with_name(f".{target.name}.{hashlib.sha256(url.encode()).hexdigest()[:16]}.part")
    try:
        paths.make_folder(target.parent)
        with _client() as client, part.open("ab+") as file:
            digest = _receive(client, url, file, target, progress)
            os.fsync(file.fileno())
            file.seek(0)
            problem = ""
            if len(digest) == 64 and hashlib.file_digest(file, "sha256").hexdigest() != digest:
                problem = "its checksum is not the announced one"
            elif part_of(target.name)[1] == 1:
                try:
                    read_header(part)
                except ModelsError as error:
                    problem = error.problem
            if problem:
                part.unlink()
                words = f"it arrived damaged: {problem}; it was deleted — fetch it again"
                raise DownloadError(f"{target.name}: {words}")
            part.rename(target)
    except OSError as error:
        raise DownloadError(f"{target}: {error.strerror or error}") from error


def _receive(client: httpx.Client, url: str, file: BinaryIO, target: Path, progress: Progress) -> str:
    """Receive the rest of a file, with several attempts; return the checksum that was announced, or ""."""
    failures = total = 0
    while True:
        start = file.seek(0, os.SEEK_END)
        progress(target.name, start, total)
        try:
            rest = {"Range": f"bytes={start}-"} if start else {}
            with client.stream("GET", url, headers=_headers(url) | rest, timeout=_SILENCE) as answer:
                digests = [hop.headers.get("x-linked-etag", "").strip('"') for hop in answer.history]
                if answer.status_code == 416 and start:  # all of it was here
                    return max(digests, default="")
                if answer.status_code in (429, *range(500, 600)):
                    raise httpx.HTTPError(f"the answer was {answer.status_code} {answer.reason_phrase}")
                if answer.is_error:
                    raise _refusal(answer, url)
                if start and answer.status_code != 206:  # it begins again
                    file.truncate(0)
                    file.seek(0)
                length = answer.headers.get("Content-Length", "")
                total = file.tell() + int(length) if length.isdecimal() else 0
                for chunk in answer.iter_bytes(_CHUNK):
                    file.write(chunk)
                    progress(target.name, file.tell(), total)
            return max(digests, default="")
        except httpx.HTTPError as error:
            failures = 1 if file.seek(0, os.SEEK_END) > start else failures + 1
            if failures >= ATTEMPTS:
                words = "what has arrived is kept, and fetching it again continues from there"
                raise DownloadError(f"{url}: {str(error) or type(error).__name__} — {words}") from error
            time.sleep(FIRST_PAUSE * 2 ** (failures - 1))
