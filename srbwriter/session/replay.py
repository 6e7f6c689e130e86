"""Replay: whether the seed of a branch gives its text again on this machine.

When the end of a branch is saved, what its tokens depended on is saved too: a :class:`BranchRecord` in the
``meta`` of its first node, and the :class:`Conditions`, which many nodes share, as a value of the story.
:class:`Replayer` lays out the same prompt, writes the branch again alone, with nothing from the cache, and
compares token by token. The text itself never depends on that: its tokens are in the story.

The first tokens of siblings are drawn together, so a branch alone cannot draw them again: they are given to
it (:attr:`.Request.given`), and it draws from the first token on that it drew for itself.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from srbwriter.engine.provenance import Provenance, read_provenance
from srbwriter.engine.types import (
    Cut,
    EngineError,
    NoModel,
    NotSupported,
    Priority,
    Request,
    Sampling,
    Stop,
    for_each,
)
from srbwriter.story.context import ContextError, Layout
from srbwriter.story.model import JsonObject, NodeId, StoryError, as_object

from .instrument import Desk, Instrument, wait_a_moment
from .prompting import Prompter
from .rounds import STEERED, wish_of
from .sampling import as_field

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.generation import Branch, Generation
    from srbwriter.story import Node, Story

    from .rounds import Round, Track

log = logging.getLogger(__name__)

KEPT = "made"
"""The key in a node's ``meta``; with a digest behind it, that of a story value."""

ELSEWHERE = "the model runs elsewhere, where a seed does not bind: servers mix the requests of many callers"
_MARGIN = 64  # tokens after the last one, in which a branch may go back before a banned phrase
_DIGEST = 8  # bytes
_CLOSE_SECONDS = 5.0  # for records that are still to be saved


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=_DIGEST).hexdigest()


def prompt_digest(generation: Generation) -> str:
    """Return a digest of the tokens of a prompt, and of its end that the first tokens spell again."""
    return digest(array("i", generation.prompt_ids).tobytes() + generation.healed.encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the tokens of many branches depended on alike.

    ``stop`` holds the fields that are not the default, ``phrases`` the banned phrases. ``repelled``: siblings
    changed the logits that the first tokens were drawn from.
    """

    computed: JsonObject
    stop: JsonObject
    phrases: tuple[str, ...] = ()
    repelled: bool = False


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """What the tokens of one branch depended on beside its seed and its sampling.

    ``conditions`` and ``prompt`` are digests. The branch has ``tokens``, of which it was given ``begun`` when
    it began, and then drew ``together`` with its siblings. ``barred`` could not come first.
    """

    conditions: str
    prompt: str
    tokens: int
    begun: int = 0
    together: int = 0
    barred: tuple[int, ...] = ()
    heal: bool = True
    layout: JsonObject = field(default_factory=dict[str, Any])


def _changed(record: object, usual: object) -> JsonObject:
    """Return the fields of a dataclass that differ from ``usual``, as JSON."""
    plain = asdict(usual)  # type: ignore[call-overload]
    changed = {name: value for name, value in asdict(record).items() if value != plain[name]}  # type: ignore[call-overload]
    return json.loads(json.dumps(changed))


def _restored(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """Return a dataclass with these fields. Raises TypeError for a missing field."""
    known = {each.name for each in fields(kind)}
    return kind(**{name: as_field(value) for name, value in values.items() if name in known})


# ---- recording


def read_record(
    current: Round, track: Track, node: Node, computed: Provenance, layout: Layout
) -> tuple[BranchRecord, Conditions] | None:
    """Return what the tokens of an ended branch depended on; None if more happened to it than is kept."""
    branch, generation = track.branch, current.generation
    if generation is None or branch.generation is not generation:  # a variant, or one with a wish of its own
        return None
    if as_object(node.meta.get(STEERED)).get("note"):  # its prompt changed while it was written
        return None
    asked, index, begun = generation.request, branch.index, 0
    if asked.takes or index >= asked.n:
        return None
    if not track.take:
        begun = len(asked.begin)
    elif not _rolled_again(generation, branch) or index in current.turned:
        return None
    sampling, stop = for_each(asked.sampling, asked.n)[index], for_each(asked.stop, asked.n)[index]
    if replace(branch.sampling, seed=None) != replace(sampling, seed=None) or branch.stop_rule != stop:
        return None
    if branch.bans and branch.buffer.drawn:  # tokens that it took back were drawn together, too
        return None
    ids, buffer = [token for span in node.spans for token in span.ids], branch.buffer
    together = [drawn.position + 1 for drawn in buffer.drawn if drawn.position < len(buffer.ids)]
    conditions = Conditions(
        asdict(computed), _changed(stop, Stop()), sampling.banned_phrases,
        repelled=asked.n > 1 and asked.repulsion != 0,
    )  # fmt: skip
    record = BranchRecord(
        digest(json.dumps(asdict(conditions)).encode()), prompt_digest(generation), len(ids), begun,
        max(together, default=begun) - begun, asked.without if not track.take else (), asked.heal,
        layout.to_json() if layout != Layout() else {},
    )  # fmt: skip
    return record, conditions


def _rolled_again(generation: Generation, branch: Branch) -> bool:
    """Whether the last that a branch lost was all of its text."""
    cuts = (e for e in reversed(generation.log) if isinstance(e, Cut) and e.branch == branch.index)
    last = next(cuts, None)
    return last is not None and not last.tokens


# ---- replaying

Verdict = Literal["same", "differs", "unknown"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay of ``node`` gave.

    Args:
        tokens: tokens that were compared, or would have been.
        first: the first of them that differs, from 1; 0 if none does.
        given: the first of them, which were not drawn again.
        missing: characters at the end of the text that its tokens do not give; None if the tokens give
            another text, or cannot be read with this model.
        reason: why the verdict is unknown, in words.
        elsewhere: how this machine differs from the one that wrote it, in words.
    """

    node: NodeId
    verdict: Verdict
    tokens: int = 0
    first: int = 0
    given: int = 0
    missing: int | None = None
    reason: str = ""
    elsewhere: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The verdict as a sentence."""
        match self.verdict:
            case "same":
                given = f"; the first {self.given} are given" if self.given else ""
                return f"the seed gives the same {self.tokens} tokens here{given}"
            case "differs":
                other = f" ({'; '.join(self.elsewhere)})" if self.elsewhere else ""
                return f"the seed gives another text here from token {self.first} of {self.tokens} on{other}"
            case _:
                return f"it cannot be said whether the seed gives this text again: {self.reason}"


class _Unknown(Exception):
    """Nothing can be said; the message is the reason."""


class Replayer:
    """Replays nodes of ``story`` with ``engine``, one at a time. Raises NotSupported for an engine elsewhere.

    ``priority`` is that of its requests. Another thread may call :meth:`stop`.
    """

    def __init__(self, story: Story, engine: Backend, priority: Priority = Priority.NORMAL) -> None:
        here = read_provenance(engine)
        if here is None:
            raise NotSupported(f"Branches cannot be replayed: {ELSEWHERE}.")
        self._story, self._engine, self._here, self._priority = story, engine, here, priority
        self._prompters: dict[int, Prompter] = {}
        self._generation: Generation | None = None
        self._stopped = False
        self.wanted = 0
        """Tokens of the node that is being replayed."""

    @property
    def done(self) -> int:
        """Tokens of it that have been written again."""
        generation = self._generation
        return len(generation.branches[0].buffer.ids) if generation is not None else 0

    def stop(self) -> None:
        """Stop the replay in progress, and all later ones."""
        self._stopped = True
        if (generation := self._generation) is not None:
            generation.cancel()

    def replay(self, node_id: NodeId) -> Replayed:
        """Replay a node. Raises NoSuchNode, and EngineError if the engine fails."""
        node = self._story.node(node_id)
        ids = [token for span in node.spans for token in span.ids]
        found = Replayed(node_id, "unknown", len(ids), missing=self._missing(node))
        try:
            record, conditions, made = self._known(node)
            ids = ids[: record.tokens]
            found = replace(found, tokens=len(ids), elsewhere=made.differences(self._here))
            given = min(record.begun + record.together, len(ids))
            if given == len(ids):
                raise _Unknown("all of its tokens were drawn together with those of other branches")
            self.wanted = len(ids)
            request = self._request(node, ids, record, conditions, made, given)
            first = self._first_difference(request, ids, record.prompt)
        except _Unknown as why:
            return replace(found, reason=str(why))
        finally:
            self._generation, self.wanted = None, 0
        return replace(found, verdict="differs" if first else "same", first=first, given=given)

    def _missing(self, node: Node) -> int | None:
        """Return how many characters at the end of the node its tokens do not give; None: not its text."""
        vocab, left = self._engine.info.vocab, 0
        for span in node.spans:
            if left or (span.ids and span.vocab != vocab):
                return None
            text = span.lead + span.text
            given = b"".join(self._engine.pieces(span.ids)).decode("utf-8", "replace")
            if not text.startswith(given):
                given = given.rstrip("\ufffd")  # a character that was not finished
            if not text.startswith(given):
                return None
            left = len(text) - len(given)
        return left

    def _known(self, node: Node) -> tuple[BranchRecord, Conditions, Provenance]:
        """Return what is recorded of a node. Raises _Unknown if that is too little, or of another model."""
        story, kept = self._story, as_object(node.meta.get(KEPT))
        if node.author != "model":
            raise _Unknown("its text was edited" if node.author == "edited" else "no model wrote this text")
        if node.streaming:
            raise _Unknown("it is still being written")
        if not any(span.ids for span in node.spans):
            raise _Unknown("its tokens are not known, because it was imported or edited")
        parent = node.parent
        if not kept:
            if parent is not None and node.seed is not None and story.node(parent).seed == node.seed:
                raise _Unknown("it continues a branch that begins in another node")
            raise _Unknown(
                "how it began is not recorded: it was rewound, typed into, changed while it was written, "
                "continued later, or written by an older version"
            )
        try:
            record: BranchRecord = _restored(BranchRecord, kept)
            conditions: Conditions = _restored(
                Conditions, as_object(story.value(f"{KEPT} {record.conditions}"))
            )
            made = Provenance.from_json(conditions.computed)
        except TypeError:
            made = record = conditions = None  # type: ignore[assignment]
        if made is None or node.seed is None or parent is None:
            raise _Unknown("what is recorded of it cannot be read")
        if made.model != self._here.model:
            raise _Unknown(f"another model file wrote it ({node.model}): choose that one")
        if made.adapters != self._here.adapters:
            raise _Unknown("it was written with other LoRA adapters or control vectors")
        if conditions.repelled:
            raise _Unknown("its first tokens depended on those of its siblings")
        return record, conditions, made

    def _request(
        self, node: Node, ids: Sequence[int], record: BranchRecord, conditions: Conditions, made: Provenance,
        given: int,
    ) -> Request:  # fmt: skip
        """Return the request for the same prompt and one branch. Raises _Unknown without room for it."""
        story, parent = self._story, node.parent
        assert parent is not None
        if made.n_ctx > self._engine.n_ctx:
            raise _Unknown(f"its window had {made.n_ctx} tokens: give --ctx-size {made.n_ctx}")
        asked: Stop = _restored(Stop, conditions.stop)
        phrases = tuple(conditions.phrases)
        sampling: Sampling = _restored(Sampling, {**node.sampling, "banned_phrases": phrases})
        goes_back = bool(phrases or sampling.loop_guard)
        rest = len(ids) - record.begun + _MARGIN * goes_back
        stop = Stop(max_tokens=rest, min_tokens=asked.min_tokens, ignore_eog=asked.ignore_eog)
        prompter = self._prompters.get(made.n_ctx)
        if prompter is None:
            prompter = self._prompters[made.n_ctx] = Prompter(story, self._engine, made.n_ctx)
        try:
            layout = Layout.from_json(record.layout)
            settings, wish = story.settings(parent), wish_of(node)
            prompt = prompter.prompt(prompter.assemble(parent, settings, asked, layout=layout, wish=wish))
        except (ContextError, StoryError) as error:
            raise _Unknown(f"its prompt cannot be laid out: {error}") from error
        own = (replace(sampling, seed=node.seed),)  # one for all would only be the source of a seed
        return Request(
            prompt, sampling=own, stop=stop, priority=self._priority,
            begin=tuple(ids[: record.begun]), without=record.barred, heal=record.heal, add_bos=False,
            given=tuple(ids[record.begun : given]), cache_prompt=False,
        )  # fmt: skip

    def _first_difference(self, request: Request, ids: Sequence[int], prompt: str) -> int:
        """Write a branch, and return which of ``ids`` it did not write again, from 1; 0 if all came.

        Raises _Unknown if the prompt is another one, or if the replay was stopped.
        """
        generation = self._generation = self._engine.submit(request)
        if prompt_digest(generation) != prompt:
            generation.cancel()
            raise _Unknown(
                "its prompt would be another one now: the text before it, or memory, note, lorebook or the "
                "request to the model, has changed"
            )
        branch = generation.branches[0]
        goes_back = bool(branch.sampling.banned_phrases or branch.sampling.loop_guard)
        for _ in generation.events():
            if self._stopped or not (goes_back or _agree(ids, branch.buffer.ids)):
                generation.cancel()
                break
        generation.wait()
        if self._stopped:
            raise _Unknown("the replay was stopped")
        written = branch.buffer.ids
        differing = (at for at, token in enumerate(ids, 1) if len(written) < at or written[at - 1] != token)
        return next(differing, 0)


def _agree(ids: Sequence[int], written: Sequence[int]) -> bool:
    """Whether the last token of ``written`` is the one of ``ids`` at its place."""
    count = len(written)
    return not 0 < count <= len(ids) or written[count - 1] == ids[count - 1]


def written_nodes(story: Story) -> Iterator[NodeId]:
    """Yield the nodes that a model wrote, in reading order."""
    for node in story.reading_order():
        if story.node(node).author in ("model", "edited"):
            yield node


def recorded_provenance(story: Story) -> list[Provenance]:
    """Return what the nodes of a story were written with, once for each node that has a record."""
    known: dict[str, Provenance | None] = {}
    found: list[Provenance] = []
    for node in written_nodes(story):
        name = str(as_object(story.node(node).meta.get(KEPT)).get("conditions"))
        if name not in known:
            computed = as_object(as_object(story.value(f"{KEPT} {name}")).get("computed"))
            known[name] = Provenance.from_json(computed)
        if (made := known[name]) is not None:
            found.append(made)
    return found


# ---- in a session


class Replays(Instrument):
    """Records what branches depend on, and replays those that the writer chooses, in their own engine."""

    name: ClassVar[str] = "replays"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._computed: tuple[Backend, Future[Provenance | None]] | None = None
        self._running: Replayer | None = None
        self._lock = threading.Lock()

    def round_begins(self, current: Round) -> None:
        desk = self._desk
        engine = desk.engine
        if engine is None:
            return
        if self._computed is None or self._computed[0] is not engine:
            self._computed = engine, self.later(lambda: read_provenance(engine))
        computed = self._computed[1]
        layout = desk.prompter.layout(current.parent)
        current.on_end = lambda track, node: self._save_record(current, track, node, computed, layout)

    def model_changed(self) -> None:
        self.stop()
        self._computed = None

    def _save_record(
        self, current: Round, track: Track, first: NodeId, computed: Future[Provenance | None], layout: Layout
    ) -> None:
        """Record what an ended branch depends on; later, if the model's file is still being read."""
        try:
            wait_a_moment(computed)
            if not computed.done():
                self._save_later(current, track, first, computed, layout)
                return
            made = computed.result()
            node = current.story.node(first)
            if made is None or KEPT in node.meta:
                return
            found = read_record(current, track, node, made, layout)
            if found is None:
                return
            record, conditions = found
            name = f"{KEPT} {record.conditions}"
            if not current.story.value(name):
                current.story.put_value(name, asdict(conditions))
            current.story.put_meta(first, KEPT, _changed(record, BranchRecord("", "", 0)))
        except (OSError, EngineError) as error:  # the file of the model has gone
            log.info("what a branch was written with is not recorded: %s", error)

    def _save_later(
        self, current: Round, track: Track, first: NodeId, computed: Future[Provenance | None], layout: Layout
    ) -> None:
        """Record a branch on the thread that reads the file, unless it is rolled again before that."""
        version = track.take

        def save() -> None:
            if track.take == version:
                self._save_record(current, track, first, computed, layout)

        self.later(lambda: self._desk.together(save))

    # ---- on request

    @property
    def progress(self) -> str:
        running = self._running
        return f"replaying: {running.done} of {running.wanted} tokens" if running is not None else ""

    def stop(self) -> None:
        with self._lock:
            if self._running is not None:
                self._running.stop()

    def close(self) -> None:
        self.stop()
        if self._computed is not None:
            with contextlib.suppress(TimeoutError):
                self.later(lambda: None).result(_CLOSE_SECONDS)

    def replay(self, index: int | None = None) -> Future[Replayed]:
        """Replay branch ``index`` of the round, or the end of the text. Returns at once.

        The engine writes it while it has nothing else to do. The future raises EngineError or StoryError.
        Raises NoModel without a model, and NotSupported for one elsewhere.
        """
        desk = self._desk
        engine, current = desk.engine, desk.round
        if engine is None:
            raise NoModel("There is no model yet that could replay the branch.")
        if desk.capabilities.remote:
            raise NotSupported(f"Branches cannot be replayed: {ELSEWHERE}.")

        def act() -> Replayed:
            desk.keep()
            replayer = Replayer(desk.story, engine, Priority.BACKGROUND)
            return self._run(replayer, self._first_node(current, index))

        return self.later(act)

    def _first_node(self, current: Round | None, index: int | None) -> NodeId:
        """Return the node in which a branch begins, or the last one of the text that a model wrote."""
        if current is not None and index is not None:
            return current.tracks[index].nodes[0][0]
        story = self._desk.story
        path = story.nodes(story.path(story.current))
        return next((node.id for node in reversed(path) if node.author == "model"), story.current)

    def _run(self, replayer: Replayer, node: NodeId) -> Replayed:
        with self._lock:
            self._running = replayer
        try:
            return replayer.replay(node)
        finally:
            self._running = None
