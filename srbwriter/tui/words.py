"""The states of a branch in the words that its pane shows.

Knows the engine's vocabulary of states; knows no widget.
"""

from __future__ import annotations

from srbwriter.engine.generation import Branch
from srbwriter.engine.types import BranchState, FinishReason

_REASONS = {
    FinishReason.EOG: "the end",
    FinishReason.LENGTH: "full length",
    FinishReason.STOP: "done at stop text",
    FinishReason.LINE: "done at line end",
    FinishReason.SENTENCE: "done at sentence end",
    FinishReason.PARAGRAPH: "done at paragraph end",
    FinishReason.CONTEXT: "context full",
    FinishReason.STOPPED: "stopped",
    FinishReason.KILLED: "killed",
    FinishReason.ERROR: "failed",
}

_SIGNS = {
    BranchState.WAITING: "·",
    BranchState.PROMPT: "…",
    BranchState.WRITING: "▸",
    BranchState.PAUSED: "‖",
    BranchState.DONE: "■",
    BranchState.FAILED: "!",
}


def state_words(branch: Branch) -> str:
    """What the branch is doing, for example ``writing`` or ``prompt 62 %``."""
    if branch.state is BranchState.DONE and branch.finish_reason is not None:
        return _REASONS[branch.finish_reason]
    if branch.state is BranchState.FAILED and branch.error is not None:
        return f"failed: {branch.error}"
    if branch.state is BranchState.PROMPT:
        total = len(branch.generation.prompt_ids)
        return f"prompt {100 * branch.generation.prompt_done // total} %" if total else "prompt"
    return branch.state.value


def state_sign(branch: Branch) -> str:
    """One character for the state, different for each, so that no state is told by colour alone."""
    if branch.finish_reason is FinishReason.KILLED and not branch.live:
        return "×"
    return _SIGNS[branch.state]


def _number(value: float) -> str:
    """Two decimals at most; of what is less than one of them, the first digit."""
    return f"{round(value, 2) or float(f'{value:.1g}'):g}"


def sampling_words(branch: Branch, usual: object) -> str:
    """How the branch's sampling differs from the ``usual`` one, for example ``temperature 1.2``."""
    from dataclasses import fields

    differences: list[str] = []
    for field in fields(branch.sampling):
        value = getattr(branch.sampling, field.name)
        if field.name != "seed" and value != getattr(usual, field.name):
            name = "temp" if field.name == "temperature" else field.name.replace("_", " ")
            differences.append(f"{name} {_number(value) if isinstance(value, float) else value}")
    return ", ".join(differences)
