"""A Session without a model: the real story on the disk, and branches that are driven by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import ModelInfo, Request, Sampling, Stop
from srbwriter.engine.verbs import BranchVerb
from srbwriter.session.ahead import LookAhead
from srbwriter.session.drafts import Draft
from srbwriter.session.instrument import Instrument
from srbwriter.session.prefix import Prefix
from srbwriter.session.rewriting import Rewriting
from srbwriter.session.sampling import Usual, Variety
from srbwriter.session.steering import Steering
from srbwriter.session.tokens import Tokens
from srbwriter.session.typing import name_action
from srbwriter.story import ROOT, Edit, NodeId, Story
from srbwriter.story.model import JsonObject
from tests.fakes.word_engine import WordEngine

MODEL = ModelInfo(
    path="/models/storyteller.gguf",
    name="storyteller",
    description="llama 15M",
    architecture="llama",
    n_params=15_000_000,
    size=30_000_000,
    n_vocab=8192,
    n_ctx_train=4096,
    n_ctx=4096,
    n_embd=288,
    vocab="v",
    chat_template=None,
    metadata={},
)


@dataclass
class Round:
    """The branches of one request, and the nodes that keep them."""

    parent: NodeId
    generation: Generation | None = None
    nodes: list[NodeId] = field(default_factory=list)
    seen: list[tuple[int, int]] = field(default_factory=list)
    over: bool = False
    forced: set[int] = field(default_factory=set)
    wish: str = ""
    wishes: dict[int, str] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)
    tracks: tuple[()] = ()
    taken_up: bool = True
    prefix: Prefix | None = None
    identity: object = field(default_factory=object)

    @property
    def branches(self) -> list[Branch]:
        return self.generation.branches if self.generation else []

    @property
    def generations(self) -> list[Generation]:
        return [self.generation] if self.generation else []

    def node_of(self, index: int) -> NodeId:
        return self.nodes[index]


@dataclass(frozen=True)
class PromptPart:
    """One source of the context."""

    source: str
    text: str
    tokens: int
    fits: bool
    ident: str = ""


@dataclass(frozen=True)
class PromptAccount:
    parts: list[PromptPart]
    used: int
    total: int
    problems: list[str] = field(default_factory=list)
    frame: str = ""
    framed: bool = False


class FakeSession:
    """The session's verbs over a real story."""

    def __init__(self, folder: Path, text: str = "", n: int = 4) -> None:
        self.engine = WordEngine()
        self.engine_state = "READY"
        self.load_progress = 1.0
        self.engine_error: Exception | None = None
        self.loader = SimpleNamespace(notes=())
        self.model: ModelInfo | None = MODEL
        self.capabilities = Capabilities()
        self.n = n
        self.sampling = Sampling()
        self.stop = Stop(max_tokens=64)
        self.variety = Variety()
        self.usual = Usual(self.sampling, self.stop, self.variety, n)
        self.long_work = None
        self.stale = False
        self.instruct = False
        self.save_state = "saved"
        file = folder / "story.srbw"
        self.story = Story.open(file) if file.exists() else Story.create(file, "Rain")
        if text:
            self.story.append(text)
            self.story.end_typing()
        self.round: Round | None = None
        self.closed = False
        self.view: JsonObject = {}
        self.state_lock = threading.RLock()
        kinds = (LookAhead, Tokens, Rewriting, Steering)
        self.instruments: tuple[Instrument, ...] = tuple(kind(cast(Any, self)) for kind in kinds)
        self.look_ahead, self.tokens, self.rewriting, self.steering = self.instruments
        self.book = SimpleNamespace(later=lambda act: Future(), offer_name=None, parts=list)

    # ---- the story

    def keep(self) -> None:
        """The branches are written down by :meth:`sync`."""

    def save(self) -> None:
        self.story.flush()

    def joint(self, place: int, letters: str) -> str:
        return ""

    def edit(self, *edits: Edit, pasted: bool = False) -> None:
        self.story.replace(*edits)

    def prepare_close(self) -> None:
        """Nothing runs on its own."""

    def keep_view(self, view: JsonObject) -> None:
        self.view = view

    def together(self, act: Callable[[], Any]) -> Any:
        with self.story.together():
            return act()

    def draft(self, sheet: str) -> Draft:
        return Draft(self.story, sheet)

    @property
    def node(self) -> NodeId:
        return self.story.current

    @property
    def title(self) -> str:
        return self.story.title

    @property
    def words(self) -> int:
        return self.story.words(self.node)

    def text(self) -> str:
        return self.story.text(self.node)

    def set_text(self, text: str) -> None:
        self.story.replace(Edit(0, self.story.chars(self.node), text))

    def undo(self) -> str:
        action = self.together(self.story.undo)
        return name_action(action) if action is not None else ""

    def redo(self) -> str:
        action = self.together(self.story.redo)
        return name_action(action) if action is not None else ""

    def revisit(self, node: NodeId) -> None:
        self.together(lambda: self.story.visit(node))

    def context(self) -> PromptAccount:
        settings = self.story.settings(self.node)
        note = settings.author_note or ""
        parts = [("memory", settings.memory or ""), ("story", self.text()), ("note", note)]
        found = [PromptPart(source, text, len(text) // 4, True) for source, text in parts if text]
        return PromptAccount(found, sum(part.tokens for part in found), 4096)

    # ---- the engine

    def cancel_load(self) -> bool:
        """The model is there."""
        return False

    def generate(self, n: int | None = None) -> Round:
        self.keep()
        self.sync()
        self.round = Round(self.node)
        self._submit(n)
        return self.round

    def _submit(self, n: int | None = None) -> None:
        n = n or self.n
        request = Request(self.text(), n=n, sampling=(self.sampling,) * n, stop=self.stop)
        self.round.generation = self.engine.submit(request)
        self.sync()

    def sync(self) -> None:
        """What the branches have published goes into the story."""
        current = self.round
        if current is None or current.over:
            return
        fresh = len(current.branches) - len(current.nodes)
        if fresh:
            current.nodes += [self.story.begin_branch(current.parent) for _ in range(fresh)]
            current.seen += [(branch.buffer.revision, 0) for branch in current.branches[-fresh:]]
        for i, branch in enumerate(current.branches):
            revision, length = current.seen[i]
            if branch.buffer.revision != revision:
                self.story.finish(current.nodes[i], "replaced")
                current.nodes[i] = self.story.begin_branch(current.parent)
                length = 0
            self.story.stream(current.nodes[i], branch.text[length:])
            current.seen[i] = (branch.buffer.revision, len(branch.text))

    def settle(self) -> None:
        """Verbs are carried out when they are called."""

    def step(self, tokens: int) -> None:
        self.engine.step(tokens)

    def _b(self, i: int) -> Branch:
        return self.round.branches[i]

    def steer(self, i: int, verb: BranchVerb, **arguments: Any) -> None:
        self.sync()
        getattr(self._b(i), verb)(**arguments)

    def stop_all(self) -> None:
        if self.round and self.round.generation:
            self.round.generation.cancel()
        elif self.round:
            self.round = None

    def add_branches(self, k: int) -> None:
        self.round.generation.add_branch(k)

    def pick(self, i: int, upto: int | None = None, text: str | None = None, go_on: bool = False) -> NodeId:
        self.keep()
        self.stop_all()
        self.sync()
        for node in self.round.nodes:
            if not self.round.over:
                self.story.finish(node, "stopped")
        self.round.over = True
        if text is not None:
            own = self._b(i).text[:upto]
            node = self.story.pick_as(self.round.parent, text, own, self.round.node_of(i))
        else:
            node = self.story.pick(self.round.node_of(i), upto)
        if go_on:
            self.generate()
        return node

    def close(self, keep_model: bool = False) -> None:
        self.kept_model = keep_model
        self.sync()
        self.story.close()
        self.closed = True


__all__ = ["ROOT", "FakeSession", "Round"]
