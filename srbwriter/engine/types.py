"""The types of engine requests and answers.

Frozen dataclasses only. Knows no llama.cpp, no story, no screen and no HTTP; all faces and backends use these
types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

MAX_SEQUENCES = 256
"""llama.cpp's hard limit on sequence ids (``LLAMA_MAX_SEQ`` in ``llama-cparams.h``)."""

DEFAULT_MAX_BRANCHES = 64
"""Live branches one engine runs at once unless told otherwise."""


class Priority(IntEnum):
    """When a request is served. Background work runs only while nothing else does, and only in free room: it
    evicts nothing that a request has used."""

    NORMAL = 0
    BACKGROUND = 1


class BranchState(StrEnum):
    """Where a branch is in its life."""

    WAITING = "waiting"  # queued, or parked until cells are free
    PROMPT = "prompt"  # its prompt (or typed text) is being evaluated
    WRITING = "writing"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"


class FinishReason(StrEnum):
    """Why a branch stopped."""

    EOG = "eog"  # the model ended its text
    LENGTH = "length"  # max_tokens or max_seconds reached
    STOP = "stop"  # a stop string, stop token or finished constraint
    LINE = "line"
    SENTENCE = "sentence"
    PARAGRAPH = "paragraph"
    CONTEXT = "context"  # the context window is full
    STOPPED = "stopped"  # the caller stopped it; its text is kept
    KILLED = "killed"  # the caller discarded it
    ERROR = "error"


Boundary = Literal["line", "sentence", "paragraph"]
Overflow = Literal["error", "truncate", "shift"]
Together = Literal["independent", "distinct"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one branch chooses its tokens. Names, meanings and defaults are llama.cpp's.

    Ranges and help texts are in :data:`srbwriter.engine.parameters.PARAMETERS`; building a chain from values
    outside them raises :class:`InvalidRequest`.
    """

    temperature: float = 0.8  # 0 is greedy
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1  # -1 is the whole context
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64  # -1 is the whole context
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    min_keep: int = 0
    infill: bool = False
    logit_bias: tuple[tuple[int, float], ...] = ()
    banned_phrases: tuple[str, ...] = ()  # a branch goes back before one of these and takes another way
    loop_guard: int = 0  # a branch goes back where a passage stands so often in a row; 0 is off
    grammar: str | None = None  # GBNF
    json_schema: str | None = None  # JSON text
    regex: str | None = None
    samplers: tuple[str, ...] | None = None  # order by name; None is the engine's own
    seed: int | None = None  # None draws one


@dataclass(frozen=True, slots=True)
class Stop:
    """When one branch ends. Every rule is checked after every token."""

    max_tokens: int | None = None  # None: until the model ends; 0: only fill the cache
    min_tokens: int = 0  # no end of generation and no boundary before this many tokens
    strings: tuple[str, ...] = ()  # the match is cut off unless include_string
    boundary: Boundary | None = None  # end after a whole line, sentence or paragraph
    after_any: tuple[str, ...] = ()  # end after a token whose text holds one of these; it is kept
    after_min_tokens: int = 0  # tokens that after_any passes over
    token_ids: tuple[int, ...] = ()
    include_string: bool = False
    ignore_eog: bool = False
    max_seconds: float | None = None  # wall clock of generation


ONLY_READ = Stop(max_tokens=0)
"""Evaluate and score the prompt, and write nothing."""


@dataclass(frozen=True, slots=True)
class TokenRun:
    """A piece of a prompt.

    ``ids`` are reused as they are when ``vocab`` is the engine's vocabulary fingerprint (or None); otherwise
    ``text`` is tokenised again. ``overlap`` is the number of characters at the start of the ids' text that
    the run before ends with already (left by token healing).
    """

    text: str
    ids: tuple[int, ...] | None = None
    vocab: str | None = None
    overlap: int = 0


Prompt: TypeAlias = "str | Sequence[int] | Sequence[TokenRun]"


@dataclass(frozen=True, slots=True)
class BranchView:
    """The branch that a logits callback changes."""

    index: int
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]


LogitsCallback: TypeAlias = "Callable[[NDArray[np.float32], BranchView], None]"
"""Changes a private copy of one row of raw logits in place, before sampling."""


@dataclass(frozen=True, slots=True)
class Take:
    """The text of a branch in an earlier request. It has ended, and can be steered and continued.

    ``ids`` are its tokens where this model wrote them; where they do not spell ``text`` it is tokenised.
    """

    text: str
    ids: tuple[int, ...] = ()
    finish_reason: FinishReason = FinishReason.STOPPED


@dataclass(frozen=True, slots=True)
class Request:
    """n branches of one prompt."""

    prompt: Prompt
    n: int = 1
    sampling: Sampling | tuple[Sampling, ...] = field(default_factory=Sampling)  # one, or one a branch
    stop: Stop | tuple[Stop, ...] = field(default_factory=Stop)
    priority: Priority = Priority.NORMAL
    logprobs: int | None = None  # None: off; 0: chosen token; k: and the k best
    prompt_logprobs: int | None = None
    next_logprobs: int | None = None  # k: the k likeliest tokens that could follow the prompt
    next_ids: tuple[int, ...] = ()  # tokens of which that is wanted, too, whether likely or not
    score_from: int = 0  # prompt_logprobs of the tokens from this one on only; 0 and 1 are all there are
    begin: tuple[int, ...] = ()  # tokens that each branch begins with, as if it had written them
    without: tuple[int, ...] = ()  # tokens that may not come right after them
    heal: bool = False  # let the first tokens complete the prompt's last, typed word
    add_bos: bool = True
    parse_special: bool = False  # special tokens written out in text become one id
    overflow: Overflow = "error"
    n_keep: int = 0  # tokens at the start kept when truncating or shifting; -1 all of the prompt
    context: int | None = None  # tokens of prompt and text together, where fewer than the window has
    cache_prompt: bool = True  # False: evaluate all of it anew, whatever the cache holds
    cache_salt: str = ""  # the cache is shared among requests with the same one
    penalty_prompt: Prompt | None = None  # what penalties and DRY look back at instead of the prompt
    logits_callback: LogitsCallback | None = None
    siblings: Together = "independent"  # how branches draw until their texts part; see :mod:`.siblings`
    takes: tuple[Take, ...] = ()  # one a branch: nothing is written until a branch is steered
    label: str = ""
    client: str = ""  # who asks, by any name: rows of the batch are shared between clients first


def for_each(given: T | tuple[T, ...], n: int) -> tuple[T, ...]:
    """Return a value for each of ``n`` branches; ``given`` is one for all, or a tuple of one for each."""
    return cast("tuple[T, ...]", given) if isinstance(given, tuple) else (given,) * n


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural-log probabilities of one token, from raw logits; top is best first."""

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Drawn(NamedTuple):
    """A token that was drawn together with siblings, and natural-log probabilities after all filters.

    ``logprob`` is that of the branch's own distribution; ``among`` that of what siblings had left of it.
    """

    position: int  # in the branch
    token: int
    logprob: float
    among: float


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """``done`` of ``total`` prompt tokens are in the cache; ``cached`` of them were before."""

    done: int
    total: int
    cached: int


class Text(NamedTuple):
    """New text of a branch. ``text`` can be empty while a character or stop string is incomplete."""

    branch: int
    text: str
    ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """A branch lost its end: only ``chars`` characters and ``tokens`` ids of it remain."""

    branch: int
    chars: int
    tokens: int


@dataclass(frozen=True, slots=True)
class PhraseBanned:
    """A branch began a banned phrase and rewound its last ``tokens``.

    With ``tokens`` 0 there was no alternative, and the phrase stays.
    """

    branch: int
    phrase: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Added:
    """A branch joined a running request."""

    branch: int


@dataclass(frozen=True, slots=True)
class StateChanged:
    branch: int
    state: BranchState


@dataclass(frozen=True, slots=True)
class Finished:
    """A branch ended. ``stop_text`` is the stop string that matched, if one did.

    ``problem`` is the reason in words where the finish reason is an error.
    """

    branch: int
    reason: FinishReason
    tokens: int
    stop_text: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """No branch of the request is live; a re-roll or extension makes it live again."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Failed:
    error: EngineError


Event: TypeAlias = (
    "PromptProgress | Text | Cut | PhraseBanned | Added | StateChanged | Finished | Done | Failed"
)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a model is loaded and run. None leaves the choice to the engine."""

    n_ctx: int | None = None  # cells shared by all branches; None: the model's own, at most 8192
    n_batch: int | None = None
    n_ubatch: int | None = None
    threads: int | None = None
    threads_batch: int | None = None
    gpu_layers: int | None = None  # -1 or None: all of them
    main_gpu: int = 0
    tensor_split: tuple[float, ...] = ()
    mlock: bool = False
    mmap: bool = True
    numa: Literal["", "distribute", "isolate", "numactl"] = ""
    flash_attn: Literal["auto", "on", "off"] = "auto"
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    seed: int | None = None  # from which branch seeds derive when a request names none
    max_branches: int = DEFAULT_MAX_BRANCHES
    max_sequences: int | None = None  # sequence ids: live branches and parked prefixes
    # rows of logits kept, so that forking evaluates nothing; None: an eighth of host_bytes, at most 64 MiB
    logits_rows: int | None = None
    host_bytes: int | None = None  # of memory for what leaves the cells; None: a quarter of what is free
    disk_dir: str | None = None  # folder for what is to outlive the program; None: nothing does
    disk_bytes: int = 4 << 30  # that the folder may take
    lora: tuple[tuple[str, float], ...] = ()  # files of LoRA adapters, and how much of each
    control_vectors: tuple[tuple[str, float], ...] = ()  # files that are added up, and how much of each
    control_vector_layers: tuple[int, int] | None = None  # the first and the last they act on; None: all
    pooling: Literal["", "mean", "cls", "last"] = ""  # of embeddings; "" is the model's own
    nice: int = 0  # steps that the threads which compute stand back behind the caller's; Linux only
    step_seconds: float = 0.05  # time budget of one prompt chunk while branches write


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Facts of a loaded model. Sizes in bytes, contexts in tokens."""

    path: str
    name: str
    description: str
    architecture: str
    n_params: int
    size: int
    n_vocab: int
    n_ctx_train: int
    n_ctx: int
    n_embd: int
    vocab: str  # fingerprint of the vocabulary
    chat_template: str | None
    metadata: Mapping[str, str]
    device: str = ""  # where it runs: the CPU, a GPU with how many of how many layers, or an address


@dataclass(frozen=True, slots=True)
class EngineStats:
    """One look at the counters; all of them cover the life of the engine."""

    prompt_tokens: int = 0  # asked for
    reused_tokens: int = 0  # of these, found in the cache
    prompt_rows: int = 0  # prompt rows handed to llama_decode
    branch_rows: int = 0  # branch rows handed to llama_decode
    generated_tokens: int = 0
    decodes: int = 0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0
    used_cells: int = 0
    total_cells: int = 0
    used_sequences: int = 0
    total_sequences: int = 0
    logits_rows: int = 0
    host_bytes: int = 0  # of states in host memory
    disk_bytes: int = 0  # of states on disk
    saved_tokens: int = 0  # copied out of the cells
    restored_tokens: int = 0  # and back into them, instead of being evaluated again
    damaged_states: int = 0  # that could not be read back
    live_branches: int = 0
    waiting_requests: int = 0
    running_requests: int = 0


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
