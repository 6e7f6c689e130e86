"""The Hugging Face hub as a place of GGUF files: what a repository holds, and which of it suits.

Speaks the two endpoints that this takes (a repository's list of files, and the files) through httpx; the
hub's own library would bring a cache, a second transfer protocol and twenty packages. Downloads nothing.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast
from urllib.parse import quote

import httpx

from srbwriter.models.files import (
    BadModelFile,
    DownloadError,
    GatedRepository,
    Header,
    MirrorUnreachable,
    MissingFile,
    MissingRepository,
    NoSuchModel,
    Offline,
    is_model,
    parse_header,
    part_names,
    parts_of,
    quantisation,
)
from srbwriter.models.fit import Wanted, matches, size_words

ENDPOINT = "https://huggingface.co"

_HEAD_BYTES = 1 << 18
"""The beginning of a file that holds everything before the vocabulary."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file at the hub; ``path`` is within its repository, ``sha256`` empty where the hub gives none."""

    path: str
    url: str
    size: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model at the hub, with all of its files in order."""

    files: tuple[RemoteFile, ...]

    @property
    def path(self) -> str:
        return self.files[0].path

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def quantisation(self) -> str:
        return quantisation(self.path)


class Hub:
    """The hub that ``HF_ENDPOINT`` names, with the token in ``HF_TOKEN`` if there is one."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.endpoint = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")

    def headers(self, url: str) -> dict[str, str]:
        """What a request for ``url`` carries. The token goes to the hub alone."""
        token = os.environ.get("HF_TOKEN", "").strip()
        return {"Authorization": f"Bearer {token}"} if token and self._is_ours(url) else {}

    def _is_ours(self, url: str) -> bool:
        ours, other = httpx.URL(self.endpoint), httpx.URL(url)
        return (ours.scheme, ours.host, ours.port) == (other.scheme, other.host, other.port)

    @property
    def is_mirror(self) -> bool:
        """Whether ``HF_ENDPOINT`` names another hub than Hugging Face."""
        return self.endpoint != ENDPOINT

    def models(self, repo: str) -> list[RemoteModel]:
        """The GGUF models of a repository, small ones first.

        Raises MissingRepository or MissingFile if there is no such repository or no model in it, and Offline,
        MirrorUnreachable or another DownloadError if the hub cannot be asked.
        """
        url = f"{self.endpoint}/api/models/{repo}"
        answer = self._get(url, repo, params={"blobs": "true"})
        try:
            document = cast("dict[str, Any]", answer.json())
            revision = str(document["sha"])
            rows = cast("list[dict[str, Any]]", document["siblings"])
            files = [self._file(repo, revision, row) for row in rows if is_model(str(row["rfilename"]))]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if self.is_mirror:
                raise MirrorUnreachable(
                    f"{self.endpoint}: the answer is no list of files, so HF_ENDPOINT names no hub — "
                    "correct it or unset it"
                ) from error
            raise DownloadError(f"{url}: the answer is no list of files — try again later") from error
        if not (found := _whole_models(files)):
            raise MissingFile(f"{repo} holds no GGUF model — look for a repository whose name ends in GGUF")
        return found

    def _file(self, repo: str, revision: str, row: dict[str, Any]) -> RemoteFile:
        path = str(row["rfilename"])
        if ".." in PurePosixPath(path).parts or path.startswith("/") or "\\" in path:
            raise ValueError(path)
        stored = cast("dict[str, Any]", row.get("lfs") or {})
        url = f"{self.endpoint}/{repo}/resolve/{quote(revision)}/{quote(path)}"
        return RemoteFile(
            path, url, int(stored.get("size") or row.get("size") or 0), str(stored.get("sha256") or "")
        )

    def header(self, file: RemoteFile) -> Header | None:
        """The header of a file that is not here yet, from its first bytes; None if they do not tell."""
        headers = {**self.headers(file.url), "Range": f"bytes=0-{_HEAD_BYTES - 1}"}
        try:
            with self.client.stream("GET", file.url, headers=headers) as answer:
                if answer.is_error:
                    return None
                head = b""
                for chunk in answer.iter_bytes():
                    head += chunk
                    if len(head) >= _HEAD_BYTES:
                        break
            return parse_header(io.BytesIO(head), len(head), Path(file.path))
        except (httpx.HTTPError, BadModelFile):
            return None

    def _get(self, url: str, repo: str, params: dict[str, str]) -> httpx.Response:
        try:
            answer = self.client.get(url, params=params, headers=self.headers(url))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = str(error) or type(error).__name__
            if self.is_mirror:
                raise MirrorUnreachable(
                    f"{self.endpoint}, which HF_ENDPOINT names, does not answer ({why}) — "
                    "correct HF_ENDPOINT, unset it, or try again later"
                ) from error
            raise Offline(
                f"{self.endpoint} does not answer ({why}) — check the network and try again"
            ) from error
        if answer.is_error:
            raise refusal(answer, f"{self.endpoint}/{repo}")
        return answer


def refusal(answer: httpx.Response, page: str) -> NoSuchModel | DownloadError:
    """The error, in words, for an answer with an error status.

    Args:
        answer: what came back.
        page: the page of the repository, or the address of a file.
    """
    repository, is_file, _ = page.partition("/resolve/")
    match answer.status_code, answer.headers.get("X-Error-Code", ""):
        case (403, _) | (_, "GatedRepo"):
            return GatedRepository(
                repository,
                f"{repository}: accept its licence on that page, then set HF_TOKEN to your access token",
            )
        case (401, _):
            return MissingRepository(
                f"{repository}: there is no such repository, or it is private — "
                "check the name, or set HF_TOKEN"
            )
        case (404, code) if code != "RepoNotFound" and (is_file or code == "EntryNotFound"):
            return MissingFile(f"{page}: there is no such file — check the name")
        case (404, _):
            return MissingRepository(
                f"{page}: there is no such repository — check the name, or see `srbwriter models recommended`"
            )
        case (status, _):
            return DownloadError(f"{page}: the answer was {status} {answer.reason_phrase} — try again later")


def _whole_models(files: Sequence[RemoteFile]) -> list[RemoteModel]:
    by_path = {file.path: file for file in files}
    found: list[RemoteModel] = []
    for file in files:
        path = PurePosixPath(file.path)
        names = [str(path.with_name(name)) for name in part_names(path.name)]
        if parts_of(path.name).number == 1 and all(name in by_path for name in names):
            found.append(RemoteModel(tuple(by_path[name] for name in names)))
    return sorted(found, key=lambda model: (model.size, model.path))


def choose(models: Sequence[RemoteModel], wanted: Wanted) -> RemoteModel:
    """The model that was named by its quantisation or its file. Raises MissingFile with those there are."""
    matching = matches([model.path for model in models], wanted.what)
    if len(matching) == 1:
        return models[matching[0]]
    listed = ", ".join(f"{model.quantisation or model.path} ({size_words(model.size)})" for model in models)
    if not matching:
        raise MissingFile(f"{wanted.repo} has no {wanted.what} — there are {listed}")
    several = ", ".join(models[index].path for index in matching)
    raise MissingFile(f"{wanted.repo} has several {wanted.what} — name one: {several}")
