"""Variants side by side: one round whose branches continue the same text under different conditions.

A variant changes the note, the memory, the adapter or the chat template, or is written by an engine at
another address. Each is a request of its own; the token tree evaluates what their prompts share once. Each
branch keeps the label of its variant, in its request and in its node. Imports no screen.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from srbwriter.addresses import normal_address
from srbwriter.engine.remote.loader import RemoteLoader
from srbwriter.engine.remote.options import RemoteOptions, shown
from srbwriter.engine.types import EngineError, InvalidRequest, Request, describe_error
from srbwriter.story import StoryError
from srbwriter.story.context import ContextError
from srbwriter.story.model import Settings

from .framing import REQUEST
from .gathering import Gathered, failed
from .instrument import Desk, Instrument, sheet_lines
from .prompting import Prompter
from .rounds import Round

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srbwriter.engine.backend import Backend
    from srbwriter.engine.generation import Generation

log = logging.getLogger(__name__)

SHEET = """\
# One variant a line: a label, a colon, and what differs from the story:
# note, memory, lora, template or at. Lines with one label are one variant.
# Examples, each of which counts without its #:
# as it is:
# rain: note = It rains all day.
# no memory: memory =
# warm: lora = warm.gguf:0.8
# chat: template = chatml
# other model: at = http://localhost:8080
"""
"""The list of a story without variants: examples, all of them remarks."""

KEPT = "variants"
"""The name of the story value with the list, as edited."""

MOST_VARIANTS, MOST_LABEL_CHARS = 16, 20
UNFRAMED = "none"
"""The name of the template that is none: the model continues the text alone."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The conditions that differ from the story's; None is as the story has it."""

    label: str
    note: str | None = None
    memory: str | None = None
    lora: str | None = None  # a loaded adapter, by its file's name or its number, and its scale after a colon
    template: str | None = None  # a name that llama.cpp knows, or UNFRAMED
    at: str | None = None  # address of another engine


_FIELDS = tuple(field.name for field in fields(Variant) if field.name != "label")


def read_variants(sheet: str) -> tuple[Variant, ...]:
    """Return the variants of an edited list. Raises ValueError for a line that is none."""
    found: dict[str, Variant] = {}
    for line in sheet_lines(sheet):
        label, colon, rest = (part.strip() for part in line.partition(":"))
        name, equals, value = (part.strip() for part in rest.partition("="))
        if not colon or not label or "=" in label:
            raise ValueError(f'"{line}" has no label. Write it as "rain: note = It rains all day."')
        if len(label) > MOST_LABEL_CHARS:
            raise ValueError(f'"{label}" is too long for a label: at most {MOST_LABEL_CHARS} characters.')
        if rest and (not equals or name not in _FIELDS):
            raise ValueError(f'"{rest}" is no condition. Write one of {", ".join(_FIELDS)}, "=" and a value.')
        if name == "at":
            value = _address(value)
        known = found.get(label, Variant(label))
        found[label] = replace(known, **{name: value}) if rest else known
    if len(found) > MOST_VARIANTS:
        raise ValueError(f"At most {MOST_VARIANTS} variants are possible; these are {len(found)}.")
    return tuple(found.values())


def _address(value: str) -> str:
    try:
        return normal_address(value)
    except ValueError:
        raise ValueError(f'"{value}" is no address. Write one like http://localhost:8080') from None


class Variants(Instrument):
    """Begins rounds of variants, and keeps the connections to engines that write some of them."""

    name: ClassVar[str] = "variants"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._loaders: dict[str, RemoteLoader] = {}  # by address
        self._gathered: Gathered | None = None  # the last round of variants

    @property
    def sheet(self) -> str:
        """The variants of the story, as edited."""
        kept = self._desk.story.value(KEPT)
        return kept if isinstance(kept, str) and kept.strip() else SHEET

    def put_sheet(self, text: str) -> None:
        """Keep an edited list with the story. Raises ValueError for a line that is no variant."""
        read_variants(text)
        self._desk.together(lambda: self._desk.story.put_value(KEPT, text))

    def _kept_variants(self) -> tuple[Variant, ...]:
        """Return the variants of the story; none if a later version of the program has written them."""
        with suppress(ValueError):
            return read_variants(self.sheet)
        return ()

    def begin(self) -> Round:
        """Begin a round at the current node: the session's n branches, shared evenly among the variants.

        Those of other engines are added when they answer, or say why not. Raises ValueError without a
        variant, NoModel without a model, and the errors of a refused request.
        """
        desk = self._desk
        desk.may_write()
        wanted = read_variants(self.sheet)
        if not wanted:
            raise ValueError("There are no variants yet. Write some with Edit variants (ctrl+g).")
        with desk.state_lock:
            _ = desk.prompter  # raises NoModel
            desk.leave_round(desk.story.end_typing)
            current = Round(desk.story, desk.story.current, max(1, desk.n // len(wanted)))
            current.variants = tuple(variant.label for variant in wanted)
            desk.begin_round(current)
        return current

    # ---- events of the session

    def submit(self, current: Round, request: Request) -> Generation | None:
        """Submit a request for each variant; for branches of an earlier session, for each run of one."""
        engine, prompter = self._desk.engine, self._desk.prompter
        labels = current.variants or tuple(branch.generation.request.label for branch in current.branches)
        if not any(labels) or engine is None:
            return None
        known = {variant.label: variant for variant in self._kept_variants()}
        if request.takes:
            parts = _taken_up(labels, request, known)
        else:
            parts = [(known[label], request) for label in labels]
        settings = self._desk.story.settings(current.parent)
        here = [
            _request_of(variant, part, current, settings, prompter)
            for variant, part in parts
            if variant.at is None
        ]
        gathered = self._gathered = Gathered(request)
        try:
            for part in here:
                gathered.add(engine.submit(part))
        except EngineError:
            gathered.cancel()
            raise
        there = [(variant, part) for variant, part in parts if variant.at is not None]
        gathered.expected = len(there)
        for variant, _ in there:
            self._loader(variant)
        for variant, part in there:
            self._ask_elsewhere(variant, part, current, settings, gathered)
        return gathered

    def round_ends(self) -> None:
        self.stop()

    def close(self) -> None:
        self.stop()
        if self._gathered is not None:
            self._gathered.cancel()
        for loader in self._loaders.values():
            loader.close()

    # ---- engines elsewhere

    @property
    def progress(self) -> str:
        if self._gathered is None or not self._gathered.expected:
            return ""
        loading = [shown(url) for url, loader in self._loaders.items() if loader.state == "LOADING"]
        return f"waiting for {', '.join(loading) or 'an engine elsewhere'}"

    def stop(self) -> None:
        """Stop waiting for engines that have not answered yet."""
        if self._gathered is not None:
            self._gathered.expect_none()
        for address, loader in list(self._loaders.items()):
            if loader.state == "LOADING":
                loader.cancel()
                del self._loaders[address]

    def _loader(self, variant: Variant) -> RemoteLoader:
        """Return the connection to the address of ``variant``; a failed one is begun again."""
        address = variant.at or ""
        loader = self._loaders.get(address)
        if loader is None or loader.state == "FAILED":
            loader = self._loaders[address] = RemoteLoader(RemoteOptions(address))
            loader.start()
        return loader

    def _ask_elsewhere(
        self, variant: Variant, request: Request, current: Round, settings: Settings, gathered: Gathered
    ) -> None:
        """Submit a variant to the engine at its address once that is connected."""
        loader = self._loaders[variant.at or ""]

        def ask() -> None:
            try:
                engine = loader.wait()
                asked = _request_of(variant, request, current, settings, Prompter(self._desk.story, engine))
                plain = replace(asked, siblings="independent", repulsion=0.0)
                samplings = asked.sampling if isinstance(asked.sampling, tuple) else (asked.sampling,)
                fitting = self._desk.variety.request_fields(samplings, engine.capabilities)
                part = engine.submit(replace(plain, **fitting))
                current.elsewhere[part] = engine.info.name, engine.info.vocab
            except Exception as error:  # the pane shows it
                log.warning("variant %s: %s", variant.label, error)
                if not isinstance(error, EngineError | ContextError | StoryError):
                    log.exception("variant %s", variant.label)
                problem = error if isinstance(error, EngineError) else EngineError(describe_error(error))
                part = failed(
                    replace(request, n=1, label=variant.label), problem, "Variants side by side asks again."
                )
            if not gathered.join(part):
                part.cancel()

        self.later(ask)


def _taken_up(
    labels: Sequence[str], request: Request, known: dict[str, Variant]
) -> list[tuple[Variant, Request]]:
    """Return a request for each run of branches with one label, which begin with the texts of ``request``.

    The model in use continues also what another engine wrote, but not under its label. A variant that is no
    longer in the list is as the story has it.
    """
    samplings = request.sampling
    assert isinstance(samplings, tuple)
    parts: list[tuple[Variant, Request]] = []
    start = 0
    for label, run in groupby(labels):
        end = start + len(list(run))
        variant = known.get(label, Variant(label))
        if variant.at is not None:
            variant = replace(variant, label="", at=None)
        own = replace(request, n=end - start, sampling=samplings[start:end], takes=request.takes[start:end])
        parts.append((variant, own))
        start = end
    return parts


def _request_of(
    variant: Variant, request: Request, current: Round, settings: Settings, prompter: Prompter
) -> Request:
    """Return ``request`` under the conditions of ``variant``, with a prompt by ``prompter``.

    Raises ContextError, and InvalidRequest or NotSupported for conditions that its engine does not know.
    """
    own = replace(
        settings,
        memory=settings.memory if variant.memory is None else variant.memory,
        author_note=settings.author_note if variant.note is None else variant.note,
    )
    if variant.template == UNFRAMED:
        own = replace(own, framed=False)
    elif variant.template is not None:
        template = replace(prompter.frame.read_template(variant.template), request=REQUEST)
        own = replace(own, framed=True, template=template)
    stop = request.stop
    assert not isinstance(stop, tuple)
    prompt = prompter.prompt(prompter.assemble(current.parent, own, stop))
    lora = request.lora
    if variant.lora is not None:
        lora = (_adapter(variant.lora, prompter.engine),) if variant.lora else ()
    return replace(request, prompt=prompt, label=variant.label, lora=lora)


def _adapter(wanted: str, engine: Backend) -> tuple[int, float]:
    """Return number and scale of a loaded adapter. Raises NotSupported, and InvalidRequest without it."""
    engine.capabilities.require("lora")
    name, _, scale = wanted.rpartition(":")
    try:
        strength = float(scale) if name else 1.0
    except ValueError:  # the colon is part of the name
        name, strength = "", 1.0
    name = name or wanted
    if name.isascii() and name.isdigit():
        return int(name), strength
    loaded = engine.adapters.list() if engine.adapters is not None else []
    found = next(
        (one.id for one in loaded if name in (one.path, Path(one.path).name, Path(one.path).stem)), None
    )
    if found is None:
        have = ", ".join(Path(one.path).name for one in loaded) or "none"
        raise InvalidRequest(
            "lora", f"no adapter {name} is loaded ({have}): start srbwriter with --lora {name}"
        )
    return found, strength
