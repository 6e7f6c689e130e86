"""Branches of earlier sittings, read out of the tree: a story opens with what was written there last."""

from __future__ import annotations

from dataclasses import fields, replace

from srbwriter.engine.generation import Branch, Buffer, Command, Generation
from srbwriter.engine.types import (
    BranchState,
    Done,
    FinishReason,
    InvalidRequest,
    Request,
    Sampling,
    Stop,
)
from srbwriter.story import Node, NodeId, Story

from .rounds import Round, Slot

_MOST = 32
_SCALARS = {field.name for field in fields(Sampling)} - {"seed"}


def earlier(story: Story, parent: NodeId) -> Round | None:
    """The last branches that the model wrote below ``parent``, ended; None where it wrote none.

    They can be read, marked and picked. What would make the model write on in them is refused, since no
    engine has them.
    """
    children = story.nodes(story.children(parent))
    nodes = [n for n in children if n.author == "model" and n.text.strip() and not n.streaming]
    if not nodes:
        return None
    nodes = nodes[-_MOST:]
    found = Round(story, parent, len(nodes))
    generation = found.generation = Generation(0, Request("", n=len(nodes)), _refuse)
    for node in nodes:
        branch = _branch(generation, node)
        generation.branches.append(branch)
        found.slots.append(_slot(branch, node))
    generation.publish([Done(0, 0, 0)])
    return found


def _refuse(command: Command) -> None:
    """No engine: ending what has ended is no trouble, everything else is."""
    if command.verb not in ("cancel", "stop"):
        problem = "it was written in an earlier sitting and cannot go on; write new branches here"
        raise InvalidRequest("branch", problem)


def _branch(generation: Generation, node: Node) -> Branch:
    known = {
        name: value
        for name, value in node.sampling.items()
        if name in _SCALARS and isinstance(value, (int, float, str))
    }
    sampling = replace(Sampling(), **known)  # type: ignore[arg-type]
    branch = Branch(generation, len(generation.branches), sampling, Stop(), node.seed or 0)
    ids = [token for run in node.runs for token in run.ids or ()]
    branch.buffer = Buffer(pieces=[node.text], ids=ids)
    branch.state = BranchState.DONE
    reasons = {str(reason): reason for reason in FinishReason}
    branch.finish_reason = reasons.get(node.finish_reason, FinishReason.STOPPED)
    return branch


def _slot(branch: Branch, node: Node) -> Slot:
    slot = Slot(branch, node.id, branch.buffer, [(node.id, 0)], finished=True)
    slot.pieces, slot.chars, slot.ids = 1, len(node.text), len(branch.buffer.ids)
    return slot
