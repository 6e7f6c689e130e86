"""One round of branches that several requests write, to one engine or to several.

A :class:`Gathered` request has the branches of its parts, numbered in the order in which they arrive.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from srbwriter.engine.generation import Branch, Command, Generation
from srbwriter.engine.types import BranchState, EngineError, Failed, FinishReason, Request, Sampling, Stop


class GatheredBranch(Branch):
    """A branch of another request, under its number among all that are gathered."""

    def __init__(self, own: Branch, index: int) -> None:
        self._own, self.index = own, index

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def _post(self, verb: str, *args: Any) -> None:
        part = self._own.generation
        part.send(Command(verb, part, self._own.index, args))


class Gathered(Generation):
    """The branches of several requests, its parts; ``request`` is what they have in common."""

    def __init__(self, request: Request) -> None:
        super().__init__(0, request, self._hand_on)
        self.parts: list[Generation] = []
        self._added = Counter[Generation]()  # branches added to each part
        self.expected = 0
        """Number of parts that :meth:`join` later."""

    @property
    def done(self) -> bool:
        return not self.expected and all(part.done for part in self.parts)

    def wait(self, timeout: float | None = None) -> Generation:
        """Block until all parts are done. Raises TimeoutError; parts that failed have their own error."""
        with self._ended:
            if not self._ended.wait_for(lambda: self.done, timeout):
                raise TimeoutError("the requests are still running")
        return self

    def add(self, part: Generation) -> None:
        """Add the branches of ``part``, also those that are added to it later."""
        self.parts.append(part)
        part.add_listener(self._on_event)
        self._on_event()

    def join(self, part: Generation) -> bool:
        """Add a part that was expected; return False if none is any more."""
        with self._changed:
            if not self.expected:
                return False
            self.parts.append(part)
            self.expected -= 1
        part.add_listener(self._on_event)
        self._on_event()
        return True

    def expect_none(self) -> None:
        """Wait for no further parts."""
        self.expected = 0
        self._on_event()

    def _on_event(self) -> None:
        """Handle an event of a part, on the thread of its engine."""
        with self._changed:
            if len(self.branches) < sum(len(part.branches) for part in self.parts):
                for part in self.parts:
                    known = sum(branch.generation is part for branch in self.branches)
                    for branch in part.branches[known:]:
                        self.branches.append(GatheredBranch(branch, len(self.branches)))
            self._ended.notify_all()
        self._tell()

    def _hand_on(self, command: Command) -> None:
        """Hand a command about all branches to the parts; a new branch is one of the part with the fewest."""
        if command.verb == "cancel":
            self.expect_none()
            for part in self.parts:
                part.cancel()
        elif command.verb == "add_branch":
            count, *rest = command.args
            for _ in range(count):
                able = [part for part in self.parts if part.error is None]
                if not able:
                    raise EngineError("no engine answers yet that could write another branch")
                part = min(able, key=lambda part: part.request.n + self._added[part])
                self._added[part] += 1
                part.add_branch(1, *rest)
        elif command.verb == "promote":
            for part in self.parts:
                part.promote(*command.args)


def failed(request: Request, error: EngineError, again: str) -> Generation:
    """Return a request with one branch that could not be written because of ``error``.

    Steering it raises the error with ``again``, which says what to do.
    """

    def refuse(command: Command) -> None:
        if command.verb not in ("cancel", "stop", "kill"):
            raise EngineError(f"{error}. {again}")

    generation = Generation(0, request, refuse)
    branch = Branch(generation, 0, Sampling(), Stop(), 0)
    branch.finish_reason, branch.error, branch.state = FinishReason.ERROR, error, BranchState.FAILED
    generation.branches.append(branch)
    generation.publish([Failed(error)])
    return generation
