"""One call of the branches: which node each writes into, and how far it has been written down.

Reads branch buffers and writes to the story; never steers the engine.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, field

from srbwriter.engine.generation import Branch, Buffer, Generation
from srbwriter.engine.types import Sampling
from srbwriter.story import NodeId, Story
from srbwriter.story.draft import JsonObject

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Slot:
    """Where one branch is kept. ``nodes`` are (node, first character of the branch in it)."""

    branch: Branch
    name: NodeId  # what the story calls the stream
    buffer: Buffer
    nodes: list[tuple[NodeId, int]] = field(default_factory=list["tuple[NodeId, int]"])
    pieces: int = 0
    chars: int = 0
    ids: int = 0
    typed: int = 0
    finished: bool = False

    @property
    def complete(self) -> bool:
        """The branch has ended, and all of it has been written down."""
        buffer = self.branch.buffer
        return self.finished and buffer is self.buffer and self.pieces == len(buffer.pieces)

    def node_at(self, char: int) -> tuple[NodeId, int]:
        """The node that holds the character before ``char``, and where in it that ends."""
        for node, start in reversed(self.nodes):
            if start < char or start == 0:
                return node, char - start
        return self.nodes[0][0], char


class Round:
    """N branches below one node. ``generation`` is None while the model is still loading."""

    def __init__(self, story: Story, parent: NodeId, n: int) -> None:
        self.story, self.parent, self.n = story, parent, n
        self.generation: Generation | None = None
        self.locked: set[int] = set()
        self.lead = ""  # end of the parent's text that the first token of a branch spells again
        self.model = self.vocab = ""
        self.slots: list[Slot] = []

    @property
    def branches(self) -> list[Branch]:
        return self.generation.branches if self.generation is not None else []

    @property
    def error(self) -> Exception | None:
        return self.generation.error if self.generation is not None else None

    @property
    def over(self) -> bool:
        """Everything has been written, and written down."""
        done = self.generation is not None and self.generation.done
        return done and len(self.slots) == len(self.branches) and all(s.complete for s in self.slots)

    def node_of(self, index: int) -> NodeId:
        """The node that branch ``index`` writes into now. Raises IndexError before it has one."""
        return self.slots[index].nodes[-1][0]

    # ---- keeping

    def keep(self) -> None:
        """Write down what the branches have published since the last time."""
        self._new_slots()
        for slot in self.slots:
            self._keep_slot(slot)

    def _new_slots(self) -> None:
        fresh = self.branches[len(self.slots) :]
        if not fresh:
            return
        names = self.story.begin_branches(
            self.parent, len(fresh), model=self.model, vocab=self.vocab,
            sampling=[_sampling_json(b) for b in fresh], seeds=[b.seed for b in fresh],
        )
        self.slots += [Slot(b, name, b.buffer, [(name, 0)]) for b, name in zip(fresh, names, strict=True)]

    def _keep_slot(self, slot: Slot) -> None:
        live = slot.branch.live  # before the text: what ends is complete
        self._drain(slot)
        if slot.branch.buffer is not slot.buffer:
            self._new_take(slot)
            self._drain(slot)
        if not live and not slot.finished and slot.branch.buffer is slot.buffer:
            self._end(slot, str(slot.branch.finish_reason or "failed"))

    def _end(self, slot: Slot, reason: str) -> None:
        self.story.finish(slot.name, reason)
        slot.finished = True

    def settle(self, index: int) -> Slot:
        """Write branch ``index`` down as it reads now; what it still writes becomes a child of that."""
        self.keep()
        slot = self.slots[index]
        if not slot.finished:
            self._end(slot, "picked")
        return slot

    def find(self, index: int, shown: int) -> tuple[NodeId, int] | None:
        """The node in which the first ``shown`` characters of branch ``index`` end, and where in it that is.

        None when the story no longer holds them so: somebody has edited, split or deleted there.
        """
        slot = self.slots[index]
        node, at = slot.node_at(min(shown, slot.chars))
        text, above = "", node
        while above != self.parent:
            if not self.story.is_living(above):
                return None
            own = self.story.node(above).text
            text = (own[:at] if above == node else own) + text
            above = self.story.parent(above)
            if above is None:
                return None
        return (node, at) if text == slot.branch.text[:shown] else None

    def _drain(self, slot: Slot) -> None:
        """Stream what is new in the buffer: model text with its ids, typed text as the writer's."""
        buffer = slot.buffer
        count = len(buffer.pieces)
        fresh = "".join(buffer.pieces[slot.pieces : count])
        if not fresh and count == slot.pieces:
            return
        slot.pieces = count
        while slot.typed < len(buffer.typed) and buffer.typed[slot.typed][0] < slot.chars + len(fresh):
            begin, end = buffer.typed[slot.typed]
            before, fresh = fresh[: begin - slot.chars], fresh[begin - slot.chars :]
            self._stream(slot, before)
            words, fresh = fresh[: end - begin], fresh[end - begin :]
            self._interject(slot, words)
        self._stream(slot, fresh)

    def _stream(self, slot: Slot, text: str) -> None:
        if not text:
            return
        buffer = slot.buffer
        end = slot.chars + len(text)
        last = slot.ids
        while last < len(buffer.ends) and buffer.ends[last] <= end:
            last += 1
        if slot.finished:
            self._go_on(slot)
        ids = buffer.ids[slot.ids : last]
        known = buffer.logprobs[slot.ids : last] if len(buffer.logprobs) >= last else []
        lead = self.lead if slot.ids == 0 and slot.branch.overlap else ""
        self.story.stream(slot.name, text, ids, [k.logprob for k in known] if known else None, lead=lead)
        slot.ids, slot.chars = last, end

    def _interject(self, slot: Slot, words: str) -> None:
        if slot.finished:  # what is written after them, if anything, begins a node of its own then
            [typed] = self.story.add(slot.nodes[-1][0], [words], "writer")
        else:
            typed = self.story.interject(slot.name, words)
        slot.nodes.append((typed, slot.chars))
        slot.chars += len(words)
        slot.typed += 1
        while slot.ids < len(slot.buffer.ends) and slot.buffer.ends[slot.ids] <= slot.chars:
            slot.ids += 1
        if not slot.finished:
            slot.nodes.append((self.story.target(slot.name), slot.chars))

    def _new_take(self, slot: Slot) -> None:
        """The branch was cut: the old take stays in the story, the new one begins with what is kept."""
        buffer = slot.buffer = slot.branch.buffer
        text = buffer.pieces[0] if buffer.pieces else ""
        slot.pieces, slot.chars = min(1, len(buffer.pieces)), len(text)
        slot.typed = sum(1 for begin, _ in buffer.typed if begin < len(text))
        slot.ids = sum(1 for end in buffer.ends if end <= len(text))
        ids = buffer.ids[: slot.ids]
        if slot.finished:
            [slot.name] = self.story.begin_branches(
                self.parent, 1, model=self.model, vocab=self.vocab, sampling=[_sampling_json(slot.branch)],
                seeds=[slot.branch.seed],
            )
            if text:
                self.story.stream(slot.name, text, ids)
            slot.finished = False
        else:
            slot.name = self.story.replace_stream(slot.name, text, ids)
        slot.nodes = [(slot.name, 0)]

    def _go_on(self, slot: Slot) -> None:
        """A branch that was finished writes again: in a child of where it ended."""
        [slot.name] = self.story.begin_branches(
            slot.nodes[-1][0], 1, model=self.model, vocab=self.vocab, sampling=[_sampling_json(slot.branch)],
            seeds=[slot.branch.seed],
        )
        slot.nodes.append((slot.name, slot.chars))
        slot.finished = False


def _sampling_json(branch: Branch) -> JsonObject:
    """What the branch is sampled with, as far as it differs from the defaults; the seed has its own place."""
    plain, own = asdict(Sampling()), asdict(branch.sampling)
    changed = {name: value for name, value in own.items() if value != plain[name] and name != "seed"}
    return json.loads(json.dumps(changed))
