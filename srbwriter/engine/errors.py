"""Everything the engine raises on purpose. Each message is fit for a person."""

from __future__ import annotations

from typing import Any

__all__ = [
    "Cancelled", "ContextOverflow", "EngineClosed", "EngineError", "InvalidRequest", "LibraryError",
    "LimitExceeded", "ModelError", "NativeError", "NoModel", "NoRoom", "NotANumber", "NotSupported",
    "OutOfRange", "RemoteError", "describe_error", "number_words",
]  # fmt: skip


class EngineError(Exception):
    """Base of everything the engine raises on purpose; ``str()`` is fit for a person."""

    @property
    def words(self) -> str:
        """The message without addresses, for clients who must not see where a remote engine is."""
        return str(self)


def describe_error(error: BaseException) -> str:
    """Return the type and message of an error, for a message about code of the caller."""
    said = str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


class ModelError(EngineError):
    """A model file cannot be used. Names the file and the cure."""

    def __init__(self, path: str, problem: str, cure: str = "") -> None:
        self.path, self.problem, self.cure = path, problem, cure
        super().__init__(f"{path}: {problem}" + (f" — {cure}" if cure else ""))


class NoModel(EngineError):
    """There is no model, or none yet, that could write."""


class InvalidRequest(EngineError):
    """A field of a request cannot mean anything. Names the field."""

    def __init__(self, field_name: str, problem: str) -> None:
        self.field, self.problem = field_name, problem
        super().__init__(f"{field_name}: {problem}")


class OutOfRange(InvalidRequest):
    """A number of a request is below ``low`` or above ``high``; None is no bound.

    The message is the engine's. A face that has words of its own makes them from the attributes.
    """

    def __init__(
        self, field_name: str, value: float, low: float | None, high: float | None, problem: str = ""
    ) -> None:
        self.value, self.low, self.high = value, low, high
        bounds = f"{number_words(low) or '∞'} … {number_words(high) or '∞'}"
        super().__init__(field_name, problem or f"{value} is not in {bounds}")


class LimitExceeded(OutOfRange):
    """A request for more branches than the engine runs at once."""

    def __init__(self, n: int, limit: int) -> None:
        self.n, self.limit = n, limit
        super().__init__("n", n, 1, limit, f"{n} branches asked for, the limit is {limit}")


def number_words(bound: float | None) -> str:
    """Return a bound as text; "" for None and for bounds that only the width of an integer sets."""
    if bound is None or bound >= 2**31 - 1:
        return ""
    return str(int(bound)) if bound == int(bound) else f"{bound:g}"


class NotSupported(EngineError):
    """A valid request that this model or these settings cannot carry out; the message names the cure."""


class ContextOverflow(EngineError):
    """The prompt does not fit the context window."""

    def __init__(self, n_prompt: int, n_ctx: int) -> None:
        self.n_prompt, self.n_ctx = n_prompt, n_ctx
        super().__init__(
            f"request ({n_prompt} tokens) exceeds the available context size ({n_ctx} tokens), "
            "try increasing it (--ctx-size) or shortening the prompt"
        )


class NoRoom(EngineError):
    """The context has no cell or no sequence left; the message names the cure."""


class RemoteError(EngineError):
    """A remote engine cannot be reached, or refuses. ``again`` says whether to try once more.

    ``status`` is the HTTP status of its answer, 0 where there was none; ``field`` is the field that a 400
    names, or "".
    """

    def __init__(
        self, where: str, problem: str, *, again: bool = True, wait: float = 0.0, status: int = 0,
        field: str = "",
    ) -> None:  # fmt: skip
        self.where, self.problem, self.again, self.wait = where, problem, again, wait
        self.status, self.field = status, field
        super().__init__(f"{where}: {problem}")

    @property
    def words(self) -> str:
        return self.problem


class Cancelled(EngineError):
    """The request was cancelled before it could finish."""


class EngineClosed(EngineError):
    """The engine is closed, or its thread has died; the message says which."""


class NotANumber(EngineError):
    """The model's answer is no number, and nothing can be chosen by it."""

    def __init__(self) -> None:
        super().__init__(
            "the model computes something that is no number (NaN): its file is damaged, or it needs another "
            "--cache-type-k and --cache-type-v (f32), or --flash-attn the other way round"
        )


class LibraryError(EngineError):
    """llama.cpp is missing, or of an untested version. The message names the cure."""


class NativeError(EngineError):
    """llama.cpp refused a call that should have worked."""

    def __init__(self, call: str, code: Any) -> None:
        self.call, self.code = call, code
        super().__init__(f"{call} failed ({code})")
