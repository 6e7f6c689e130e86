"""Bringing models here: from a repository of the hub, or from any address.

Chooses among quantisations by what fits this machine, and finds what has been brought before without
asking the network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import httpx

from srbwriter import paths
from srbwriter.models.choosing import Wanted, suggest, url_file
from srbwriter.models.download import Fetcher, Progress, Source, new_client
from srbwriter.models.errors import DownloadError
from srbwriter.models.estimate import Run, need
from srbwriter.models.header import Header
from srbwriter.models.hub import Hub, RemoteModel, choose
from srbwriter.models.machine import memory_budget
from srbwriter.models.names import hub_folder

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
    folder = hub_folder(paths.models_dir(), plan.wanted.repo)
    targets = [folder.joinpath(*PurePosixPath(file.path).parts) for file in plan.model.files]
    with new_client() as client:
        fetcher = Fetcher(client, Hub(client).headers, progress)
        for file, target in zip(plan.model.files, targets, strict=True):
            if not (target.is_file() and target.stat().st_size == file.size):
                _refuse_other(target)
                fetcher.fetch(Source(file.url, file.size, file.sha256), target)
    return targets[0]


def _refuse_other(target: Path) -> None:
    if target.exists():
        raise DownloadError(f"{target}: there is another file of this name — remove it and fetch again")


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
    return Source(url, int(size) if size.isdigit() else 0, mark if is_digest else "", mark)
