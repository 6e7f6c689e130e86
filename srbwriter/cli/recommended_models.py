"""``srbwriter models recommended``: free models that write prose, and which of them fit this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.cli.columns import columns, document
from srbwriter.cli.exits import say

if TYPE_CHECKING:
    from srbwriter.models import RecommendedModel


def show(as_json: bool) -> None:
    """Print the bundled list as a table with the command for each model, or as JSON."""
    from srbwriter.models import memory, read_recommended, size_words

    found = read_recommended()
    if as_json:
        rows = [_as_json(model) for model in found.models]
        print(document({"date": found.date.isoformat(), "models": rows}))
        return
    titles = ("name", "kind", "for", "size", "memory", "here", "licence")
    head, *lines = columns([titles, *map(_as_cells, found.models)], right=(2, 3, 4)).splitlines()
    print(head)
    for line, model in zip(lines, found.models, strict=True):
        print(f"{line}\n  srbwriter models pull {model.pull_name} --use")
    say(f"this machine has {size_words(memory())} of memory; compare those for a GPU with its own")
    say("memory is computed for eight panes with the default settings")
    say(f"as of {found.date}; --json names the page where each fact was confirmed")


def _as_cells(model: RecommendedModel) -> tuple[str, ...]:
    from srbwriter.models import size_words

    size, need = (size_words(number) if number else "" for number in (model.size, model.memory))
    return model.name, model.kind, model.machine, size, need, _here(model), model.licence


def _here(model: RecommendedModel) -> str:
    """Return whether the model has been fetched, or whether it would fit this machine."""
    from srbwriter.models import Need, memory, memory_budget

    if model.is_here:
        return "fetched"
    if not model.memory:
        return ""
    return Need(model.memory, 0, 0).verdict(memory(), memory_budget())


def _as_json(model: RecommendedModel) -> dict[str, object]:
    return {
        "name": model.name,
        "kind": model.kind,
        "machine": model.machine,
        "repository": model.repository,
        "file": model.file,
        "size": model.size,
        "licence": model.licence or None,
        "context": model.context,
        "memory": model.memory,
        "verdict": _here(model) or None,
        "path": str(model.path) if model.is_here else None,
        "arrived": model.arrived,
        "note": model.note,
        "command": f"srbwriter models pull {model.pull_name} --use",
        "pages": dict(model.pages),
    }
