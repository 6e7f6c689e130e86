"""``srbwriter replay``: writes the branches of a story again from their seeds, and compares."""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from srbwriter import launch
from srbwriter.cli.columns import document, plain
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.flags import add_keys
from srbwriter.cli.models import fetch_named_model
from srbwriter.cli.stories import find_story
from srbwriter.config import Settings, Table
from srbwriter.story import Story
from srbwriter.story.model import NodeId, counted

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.provenance import Provenance
    from srbwriter.engine.types import EngineOptions
    from srbwriter.session.replay import Replayed

DESCRIPTION = """\
Write the branches of a story again, each alone and from its seed, and say which come out the same on this
machine. Nothing is changed: the text itself is kept by its tokens. The exit code is 1 if one differs.

  srbwriter replay orchard
  srbwriter replay orchard -m novelist --threads 1
  srbwriter replay orchard --json"""

_LINE = "{:>6}  {:>6}  {:<7}  {:<4}  {}"
_WORDS = {"same": "same", "differs": "differs", "unknown": "?"}
_TEXT_CHARS = 32


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.usage = "srbwriter replay STORY [options]"
    parser.add_argument("story", metavar="STORY", help="title, name or file of a story")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    add_keys(parser, table, ("model", "log"))


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from srbwriter.session.replay import ELSEWHERE, recorded_provenance, written_nodes

    if launch.elsewhere(settings):
        raise Failure(f"nothing can be replayed: {ELSEWHERE} — name a model file with -m", Exit.USAGE)
    with Story.open(find_story(arguments.story), readonly=True) as story:
        if story.damage is not None:
            raise Failure(f"{story.file} is damaged: {story.damage}", Exit.DAMAGED)
        nodes = list(written_nodes(story))
        if not nodes:
            say("no model wrote anything in this story")
            return Exit.OK
        fetch_named_model(settings)
        with _engine(settings, recorded_provenance(story)) as engine:
            found = _replay(story, nodes, engine, as_json=arguments.json)
    return Exit.ERROR if any(each.verdict == "differs" for each in found) else Exit.OK


@contextlib.contextmanager
def _engine(settings: Settings, recorded: list[Provenance]) -> Generator[Backend]:
    """Load the model, with the sizes, threads and attention that most branches were written with.

    Settings of this start go first. Raises ModelError.
    """
    from srbwriter.engine.loader import EngineLoader

    if (error := launch.missing_model(settings)) is not None:
        raise error
    options = _like(launch.engine_options(settings), recorded)
    with contextlib.closing(
        EngineLoader(launch.model_path(settings), options, fit=launch.fit_options, notify=say)
    ) as loader:
        yield loader.wait()


def _like(options: EngineOptions, recorded: list[Provenance]) -> EngineOptions:
    options = replace(options, max_branches=1, disk_dir=None)
    if not recorded:
        return options
    [(usual, _)] = Counter(recorded).most_common(1)
    window = max(made.n_ctx for made in recorded)
    flash_attn: Any = usual.flash_attn if options.flash_attn == "auto" else options.flash_attn
    return replace(
        options, n_ctx=options.n_ctx or window, threads=options.threads or usual.threads,
        threads_batch=options.threads_batch or usual.threads_batch, flash_attn=flash_attn,
        n_batch=options.n_batch or usual.n_batch, n_ubatch=options.n_ubatch or usual.n_ubatch,
    )  # fmt: skip


def _replay(story: Story, nodes: Sequence[NodeId], engine: Backend, *, as_json: bool) -> list[Replayed]:
    """Replay nodes, and print a line for each when it is done, or one JSON document at the end."""
    from srbwriter.session.replay import Replayer

    replayer = Replayer(story, engine)
    found: list[Replayed] = []
    if not as_json:
        print(_LINE.format("node", "tokens", "seed", "text", "").rstrip())
    for node in nodes:
        found.append(replayer.replay(node))
        if not as_json:
            print(_line(found[-1], story.node(node).text), flush=True)
    whole = {"model": engine.info.name, "nodes": list(map(asdict, found))}
    print(document(whole) if as_json else _summary(found))
    return found


def _line(found: Replayed, text: str) -> str:
    why = found.reason if found.verdict == "unknown" else " ".join(text.split())[:_TEXT_CHARS]
    if found.verdict == "differs":
        why = "; ".join((f"from token {found.first} on", *found.elsewhere))
    kept = {None: "?", 0: "kept"}.get(found.missing, f"-{found.missing}")
    return _LINE.format(found.node, found.tokens, _WORDS[found.verdict], kept, plain(why))


def _summary(found: list[Replayed]) -> str:
    verdicts = Counter(each.verdict for each in found)
    kept = sum(each.missing == 0 for each in found)
    return (
        f"\n{counted(len(found), 'node')}: the seed gives the same text here for {verdicts['same']}, "
        f"another for {verdicts['differs']}; of {verdicts['unknown']} it cannot be said. "
        f"The tokens give the whole text of {kept}."
    )
