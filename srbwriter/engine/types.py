"""The types of engine requests and answers.

Requests and options are frozen structs, each field with its range, help and other names (:mod:`.fields`).
Knows no llama.cpp, no story, no screen and no HTTP; all faces and backends use these types.
"""

# Annotations are evaluated at once: as texts, with all that they say here, they would be compiled each time.
from collections.abc import Callable, Mapping, Sequence
from dataclasses import make_dataclass
from enum import IntEnum, StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from msgspec import Meta, Struct

from . import limits
from .errors import *  # noqa: F403 - all of them are found here, too
from .errors import EngineError
from .fields import knob

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

MAX_SEQUENCES = 256
"""llama.cpp's hard limit on sequence ids (``LLAMA_MAX_SEQ`` in ``llama-cparams.h``)."""

DEFAULT_MAX_BRANCHES = 64
"""Live branches one engine runs at once unless told otherwise."""


class _DataclassFields:
    """Lets dataclasses.replace, fields and asdict take a struct; made at first use."""

    def __get__(self, instance: object, kind: type[Struct]) -> Any:
        like: Any = make_dataclass(kind.__name__, kind.__struct_fields__, init=False, repr=False, eq=False)
        type.__setattr__(kind, "__dataclass_fields__", like.__dataclass_fields__)
        return like.__dataclass_fields__


class Record(Struct, frozen=True):
    """A frozen struct; what :mod:`dataclasses` does with records, it does with these."""


type.__setattr__(Record, "__dataclass_fields__", _DataclassFields())


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
Overflow = Literal["error", "truncate"]
Together = Literal["independent", "distinct"]


_INT32 = 2**31 - 1
_basic, _filter, _repeats = partial(knob, "basic"), partial(knob, "truncation"), partial(knob, "repetition")
_dry, _other, _rule = partial(knob, "DRY"), partial(knob, "other samplers"), partial(knob, "constraint")
_length, _request = partial(knob, "length"), partial(knob, "request")

StopText: TypeAlias = Annotated[str, Meta(max_length=limits.STOP_CHARS)]
Phrase: TypeAlias = Annotated[str, Meta(max_length=limits.PHRASE_CHARS)]
Breaker: TypeAlias = Annotated[str, Meta(max_length=limits.BREAKER_CHARS)]
Name: TypeAlias = Annotated[str, Meta(max_length=limits.LIST_CHARS)]


class Sampling(Record, frozen=True):
    """How one branch chooses its tokens. Names, meanings and defaults are llama.cpp's.

    Building a chain from values out of range raises :class:`InvalidRequest`.
    """

    # fmt: off
    temperature: Annotated[float, _basic(
        "Temperature",
        "How adventurous the words are: higher is more surprising, 0 always takes the likeliest token.",
        0, 100, 0.05, aliases="temp", first=True, flags="--temperature --temp", elsewhere="llamacpp vllm",
    )] = 0.8
    dynatemp_range: Annotated[float, _basic(
        "Dynamic temperature",
        "Vary the temperature by up to this much: higher where many tokens are likely, lower where one is; "
        "0 is off.", 0, 100, 0.05, flags="--dynatemp-range", elsewhere="llamacpp",
    )] = 0.0
    dynatemp_exponent: Annotated[float, _basic(
        "Dynamic temperature exponent", "How steeply the temperature rises with the number of likely tokens.",
        0, 10, 0.1, flags="--dynatemp-exp", elsewhere="llamacpp",
    )] = 1.0
    seed: Annotated[int, _basic(
        "Seed", "The same seed, settings and number of branches give the same text.",
        0, 2**64 - 1, 1, aliases="sampler_seed", flags="--seed -s",
    )] | None = None  # None draws one
    top_k: Annotated[int, _filter(
        "Top k", "Choose among this many of the likeliest tokens; 0 is off.",
        -1, _INT32, 5, flags="--top-k", elsewhere="llamacpp vllm",
    )] = 40
    top_p: Annotated[float, _filter(
        "Top p (nucleus)",
        "Choose among the likeliest tokens that together have this probability; 1 is off.",
        0, 1, 0.01, flags="--top-p", elsewhere="llamacpp vllm",
    )] = 0.95
    min_p: Annotated[float, _filter(
        "Min p", "Drop tokens less likely than this share of the likeliest one; 0 is off.",
        0, 1, 0.01, first=True, flags="--min-p", elsewhere="llamacpp vllm",
    )] = 0.05
    typical_p: Annotated[float, _filter(
        "Typical p",
        "Prefer tokens that are about as surprising as expected, up to this total probability; 1 is off.",
        0, 1, 0.01, aliases="typical typ_p", flags="--typical --typical-p", elsewhere="llamacpp",
    )] = 1.0
    top_n_sigma: Annotated[float, _filter(
        "Top n sigma",
        "Keep tokens whose logit is within this many standard deviations of the best; below 0 is off.",
        -1, 100, 0.1, aliases="nsigma", flags="--top-nsigma --top-n-sigma", elsewhere="llamacpp",
    )] = -1.0
    xtc_probability: Annotated[float, _filter(
        "XTC probability", "How often XTC drops the likeliest tokens, all but the last of them; 0 is off.",
        0, 1, 0.05, flags="--xtc-probability", elsewhere="llamacpp",
    )] = 0.0
    xtc_threshold: Annotated[float, _filter(
        "XTC threshold", "Tokens at least this likely can be dropped by XTC; above 0.5 is off.",
        0, 1, 0.05, flags="--xtc-threshold", elsewhere="llamacpp",
    )] = 0.1
    min_keep: Annotated[int, _filter(
        "Min candidates", "Tokens that are always left to choose from, whatever the filters drop.",
        0, _INT32, 1, elsewhere="llamacpp",
    )] = 0
    repeat_penalty: Annotated[float, _repeats(
        "Repetition penalty", "Makes tokens that have occurred less likely; 1 is off.", 0.01, 100, 0.05,
        aliases="repetition_penalty rep_pen token_repetition_penalty_max", flags="--repeat-penalty",
        elsewhere="llamacpp vllm=repetition_penalty",
    )] = 1.0
    repeat_last_n: Annotated[int, _repeats(
        "Penalty range", "How many tokens back the penalties look; -1 is the whole context.",
        -1, limits.TOKENS, 16, flags="--repeat-last-n",
        aliases="repetition_penalty_range rep_pen_range penalty_range token_repetition_penalty_sustain",
    )] = 64
    frequency_penalty: Annotated[float, _repeats(
        "Frequency penalty", "Lowers a token's logit by this each time it has occurred.",
        -100, 100, 0.05, flags="--frequency-penalty", elsewhere="llamacpp vllm",
    )] = 0.0
    presence_penalty: Annotated[float, _repeats(
        "Presence penalty", "Lowers a token's logit by this once it has occurred.",
        -100, 100, 0.05, flags="--presence-penalty", elsewhere="llamacpp vllm",
    )] = 0.0
    dry_multiplier: Annotated[float, _dry(
        "Repetition (DRY)", "How strongly DRY avoids repeated phrases, such as 0.8; 0 is off.",
        0, 100, 0.05, first=True, flags="--dry-multiplier", elsewhere="llamacpp",
    )] = 0.0
    dry_base: Annotated[float, _dry(
        "DRY growth", "How fast the DRY penalty grows with the length of the repetition.",
        1, 10, 0.05, flags="--dry-base", elsewhere="llamacpp",
    )] = 1.75
    dry_allowed_length: Annotated[int, _dry(
        "DRY free length", "Tokens that may repeat before DRY acts.",
        0, _INT32, 1, flags="--dry-allowed-length", elsewhere="llamacpp",
    )] = 2
    dry_penalty_last_n: Annotated[int, _dry(
        "DRY range", "How many tokens back DRY looks; -1 is the whole context.",
        -1, limits.TOKENS, 64, aliases="dry_range", flags="--dry-penalty-last-n",
    )] = -1
    dry_sequence_breakers: Annotated[tuple[Breaker, ...], _dry(
        "DRY breakers", "Texts that end a repetition for DRY.",
        most=limits.BREAKERS, flags="--dry-sequence-breaker",
    )] = ("\n", ":", '"', "*")
    mirostat: Annotated[int, _other(
        "Mirostat", "Keep the surprise of the text even, instead of filtering: version 1 or 2; 0 is off.",
        0, 2, 1, aliases="mirostat_mode", flags="--mirostat", elsewhere="llamacpp",
    )] = 0
    mirostat_tau: Annotated[float, _other(
        "Mirostat surprise", "Surprise that mirostat aims at, in bits.",
        0, 100, 0.1, flags="--mirostat-ent", elsewhere="llamacpp",
    )] = 5.0
    mirostat_eta: Annotated[float, _other(
        "Mirostat speed", "How fast mirostat corrects.",
        0, 1, 0.01, flags="--mirostat-lr", elsewhere="llamacpp",
    )] = 0.1
    adaptive_target: Annotated[float, _other(
        "Adaptive p target", "Average probability that chosen tokens should have; below 0 is off.",
        -1, 1, 0.05, flags="--adaptive-target", elsewhere="llamacpp",
    )] = -1.0
    adaptive_decay: Annotated[float, _other(
        "Adaptive p decay", "How long earlier tokens count for adaptive p.",
        0, 0.99, 0.01, flags="--adaptive-decay", elsewhere="llamacpp",
    )] = 0.9
    samplers: Annotated[tuple[Name, ...], _other(
        "Order of samplers", "Samplers in the order in which they act; those that are left out are off.",
        most=limits.SAMPLERS, flags="--samplers",
    )] | None = None  # None is the engine's own order
    logit_bias: Annotated[tuple[tuple[int, float], ...], _rule(
        "Token biases", "Added to the logits of tokens; minus infinity forbids a token.",
        most=limits.BIASES, flags="--logit-bias -l",
    )] = ()
    banned_phrases: Annotated[tuple[Phrase, ...], _rule(
        "Banned phrases",
        "Phrases that never come: a branch that writes one goes back and writes something else.",
        most=limits.PHRASES, in_all=limits.PHRASES_CHARS, aliases="banned_strings banned_tokens", first=True,
        flags="--ban-phrase",
    )] = ()
    grammar: Annotated[str, _rule(
        "Grammar (GBNF)", "GBNF grammar that the text follows.",
        most=limits.CONSTRAINT_CHARS, flags="--grammar", aliases="grammar_string",
    )] | None = None
    json_schema: Annotated[str, _rule(
        "JSON schema", "JSON schema that the text follows.",
        most=limits.CONSTRAINT_CHARS, aliases="guided_json", flags="--json-schema -j",
    )] | None = None
    regex: Annotated[str, _rule(
        "Regular expression", "Regular expression that the whole text matches.",
        most=limits.CONSTRAINT_CHARS, aliases="guided_regex", flags="--regex",
    )] | None = None
    # fmt: on


class Stop(Record, frozen=True):
    """When one branch ends. Every rule is checked after every token."""

    # fmt: off
    max_tokens: Annotated[int, _length(
        "Longest branch",
        "Most tokens in one branch; 100 tokens are about 75 words. 0 writes nothing and only fills the "
        "cache.", 0, limits.TOKENS, 16, size=True, first=True, flags="--max-tokens --predict --n-predict",
        aliases="n_predict max_new_tokens max_length max_completion_tokens num_predict",
    )] | None = None  # None: until the model ends
    min_tokens: Annotated[int, _length(
        "Shortest branch", "Tokens before which a branch does not end by itself.",
        0, _INT32, 1, aliases="min_length", flags="--min-tokens",
    )] = 0
    strings: Annotated[tuple[StopText, ...], _length(
        "Stop text (cut off)", "Texts that end a branch; they are cut off.", public="stop",
        aliases="stopping_strings stop_sequence stop_sequences", flags="--stop --reverse-prompt -r",
        most=limits.STOPS, in_all=limits.STOPS_CHARS,
    )] = ()
    boundary: Annotated[Boundary, _length(
        "End of a branch", "End each branch after a whole line, sentence or paragraph.", first=True,
        flags="--boundary",
    )] | None = None
    after_any: Annotated[tuple[StopText, ...], _length(
        "Stop text (kept)", "Texts that end a branch; they are kept.",
        most=limits.STOPS, in_all=limits.STOPS_CHARS,
    )] = ()
    after_min_tokens: Annotated[int, _length(
        "Stop text: not before", "Tokens before which a kept stop text does not end a branch.", 0, _INT32, 1,
    )] = 0
    token_ids: Annotated[tuple[int, ...], _length(
        "Stop tokens", "Ids of tokens that end a branch.", public="stop_token_ids", most=limits.IDS,
    )] = ()
    include_string: Annotated[bool, _length(
        "Keep all stop texts", "Keep the stop text at the end of the branch.",
        public="include_stop", aliases="include_stop_str_in_output", flags="--include-stop",
    )] = False
    ignore_eog: Annotated[bool, _length(
        "Write past the end", "Keep writing where the model would end its text.", public="ignore_eos",
        aliases="ban_eos_token use_default_badwordsids", flags="--ignore-eos",
    )] = False
    max_seconds: Annotated[float, _length(
        "Longest time", "Most seconds that a branch is written.", 0, _INT32, 1, flags="--max-seconds",
    )] | None = None  # wall clock of generation
    # fmt: on


ONLY_READ = Stop(max_tokens=0)
"""Evaluate and score the prompt, and write nothing."""


class TokenRun(Record, frozen=True):
    """A piece of a prompt.

    ``ids`` are reused as they are when ``vocab`` is the engine's vocabulary fingerprint (or None); otherwise
    ``text`` is tokenised again. ``overlap`` is the number of characters at the start of the ids' text that
    the run before ends with already (left by token healing).
    """

    text: str
    ids: tuple[int, ...] | None = None
    vocab: str | None = None
    overlap: int = 0


class BranchView(Record, frozen=True):
    """The branch that a logits callback changes."""

    index: int
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]


if TYPE_CHECKING:
    Prompt: TypeAlias = str | Sequence[int] | Sequence[TokenRun]
    LogitsCallback: TypeAlias = Callable[[NDArray[np.float32], BranchView], None]
    """Changes a private copy of one row of raw logits in place, before sampling."""
else:
    Prompt = LogitsCallback = Any  # which the engine reads itself


class Take(Record, frozen=True):
    """The text of a branch in an earlier request. It has ended, and can be steered and continued.

    ``ids`` are its tokens where this model wrote them; where they do not spell ``text`` it is tokenised.
    """

    text: str
    ids: tuple[int, ...] = ()
    finish_reason: FinishReason = FinishReason.STOPPED


class Request(Record, frozen=True):
    """n branches of one prompt.

    ``sampling`` and ``stop`` are one for all branches, or a tuple of one for each. With ``takes``, one a
    branch, nothing is written until a branch is steered. ``client`` names the sender: clients share
    the rows of a batch.
    """

    prompt: Prompt
    # fmt: off
    n: Annotated[int, _request(
        "Branches", "Branches of the prompt; by flags and over HTTP no more than --max-n, which is "
        "64 at most.", 1, MAX_SEQUENCES, 1, size=True, aliases="n_cmpl", flags="--n -n",
    )] = 1
    sampling: Sampling | tuple[Sampling, ...] = Sampling()
    stop: Stop | tuple[Stop, ...] = Stop()
    siblings: Annotated[Together, knob(
        "variety", "How branches differ",
        "independent: each by itself. distinct: no two begin with the same token, if another one is likely "
        "enough.",
    )] = "independent"  # see :mod:`.siblings`
    priority: Annotated[Priority, _request("Priority", "Which requests are served first.")] = Priority.NORMAL
    logprobs: Annotated[int, _request(
        "Log-probabilities", "Log-probabilities of the chosen token and so many others.",
        0, limits.LOGPROBS, 1, size=True, aliases="n_probs top_logprobs", flags="--logprobs",
    )] | None = None
    prompt_logprobs: Annotated[int, _request(
        "Prompt log-probabilities", "The same for the tokens of the prompt.",
        0, limits.LOGPROBS, 1, size=True,
    )] | None = None
    next_logprobs: Annotated[int, _request(
        "Next log-probabilities", "How many of the likeliest tokens after the prompt are returned.",
        0, limits.LOGPROBS, 1, size=True,
    )] | None = None
    next_ids: Annotated[tuple[int, ...], _request(
        "Next token ids", "Tokens whose probability after the prompt is returned.", most=limits.IDS,
    )] = ()
    score_from: Annotated[int, _request(
        "First scored token", "The first token of the prompt whose log-probability is returned.",
        0, limits.PROMPT_IDS, 1, size=True,
    )] = 0
    begin: Annotated[tuple[int, ...], _request(
        "Forced beginning", "Tokens that each branch begins with, as if it had written them.",
        most=limits.PROMPT_IDS,
    )] = ()
    without: Annotated[tuple[int, ...], _request(
        "Barred next tokens", "Tokens that may not come right after the forced beginning.", most=limits.IDS,
    )] = ()
    heal: Annotated[bool, _request(
        "Complete the last word", "Let the first token complete the prompt's last word.",
    )] = False
    add_bos: Annotated[bool, _request(
        "Begin as the model expects", "Begin the prompt as the model expects.",
        aliases="add_bos_token add_special_tokens",
    )] = True
    parse_special: Annotated[bool, _request(
        "Read special tokens", "Read special tokens written out in the prompt.",
    )] = False
    overflow: Annotated[Overflow, _request(
        "When it does not fit", "When the prompt does not fit: refuse it, or drop its beginning.",
    )] = "error"
    n_keep: Annotated[int, _request(
        "Kept of the beginning", "Tokens at the start that overflow never drops; -1 is all.",
        -1, _INT32, 1, flags="--keep",
    )] = 0
    context: Annotated[int, _request(
        "Longest context", "Tokens that prompt and text may have together; the beginning of a longer prompt "
        "is dropped.", 2, limits.TOKENS, 256, size=True,
        aliases="truncation_length max_context_length num_ctx",
    )] | None = None
    cache_prompt: Annotated[bool, _request(
        "Use the cache", "Use what the cache holds of the prompt; false evaluates all of it anew.",
    )] = True
    cache_salt: Annotated[str, _request(
        "Cache salt", "Share the cache only with requests that give the same text here.", most=1024,
    )] = ""
    # fmt: on
    logits_callback: LogitsCallback | None = None
    takes: tuple[Take, ...] = ()
    label: str = ""
    client: str = ""


def for_each(given: T | tuple[T, ...], n: int) -> tuple[T, ...]:
    """Return a value for each of ``n`` branches; ``given`` is one for all, or a tuple of one for each."""
    return cast("tuple[T, ...]", given) if isinstance(given, tuple) else (given,) * n


class TokenLogprob(Record, frozen=True):
    """Natural-log probabilities of one token, from raw logits; top is best first."""

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class PromptProgress(Record, frozen=True):
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


class Cut(Record, frozen=True):
    """A branch lost its end: only ``chars`` characters and ``tokens`` ids of it remain."""

    branch: int
    chars: int
    tokens: int


class PhraseBanned(Record, frozen=True):
    """A branch began a banned phrase and rewound its last ``tokens``.

    With ``tokens`` 0 there was no alternative, and the phrase stays.
    """

    branch: int
    phrase: str
    tokens: int


class Added(Record, frozen=True):
    """A branch joined a running request."""

    branch: int


class StateChanged(Record, frozen=True):
    branch: int
    state: BranchState


class Finished(Record, frozen=True):
    """A branch ended. ``stop_text`` is the stop string that matched, if one did.

    ``problem`` is the reason in words where the finish reason is an error.
    """

    branch: int
    reason: FinishReason
    tokens: int
    stop_text: str | None = None
    problem: str | None = None


class Done(Record, frozen=True):
    """No branch of the request is live; a re-roll or extension makes it live again."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class Failed(Record, frozen=True):
    error: EngineError


Event: TypeAlias = (
    "PromptProgress | Text | Cut | PhraseBanned | Added | StateChanged | Finished | Done | Failed"
)


Count: TypeAlias = Annotated[int, Meta(ge=1, le=_INT32)]
Cells: TypeAlias = Annotated[int, Meta(ge=16, le=1 << 24)]
"""Tokens of a context. No model is trained for more, and llama.cpp goes through them one by one before it
asks for the memory: at a thousand million that is a minute of work and tens of gigabytes."""
Threads: TypeAlias = Annotated[int, Meta(ge=1, le=512)]  # ``GGML_MAX_N_THREADS``
Amount: TypeAlias = Annotated[int, Meta(ge=0, le=_INT32)]
Bytes: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 60)]
Branches: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_SEQUENCES)]
CacheType: TypeAlias = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
"""Types of KV cache cells (``kv_cache_types`` in llama.cpp's ``common/arg.cpp``)."""


class EngineOptions(Record, frozen=True):
    """How a model is loaded and run. None leaves the choice to the engine."""

    n_ctx: Cells | None = None  # cells shared by all branches; None: the model's own, at most 8192
    n_batch: Count | None = None
    n_ubatch: Count | None = None
    threads: Threads | None = None
    threads_batch: Threads | None = None
    gpu_layers: Annotated[int, Meta(ge=-1, le=_INT32)] | None = None  # -1 or None: all of them
    main_gpu: Amount = 0
    tensor_split: Annotated[tuple[float, ...], Meta(max_length=128)] = ()  # llama.cpp knows no more devices
    mlock: bool = False
    mmap: bool = True
    flash_attn: Literal["auto", "on", "off"] = "auto"
    cache_type_k: CacheType = "f16"
    cache_type_v: CacheType = "f16"
    seed: int | None = None  # from which branch seeds derive when a request names none
    max_branches: Branches = DEFAULT_MAX_BRANCHES
    max_sequences: Branches | None = None  # sequence ids: live branches and parked prefixes
    # rows of logits kept, so that forking evaluates nothing; None: an eighth of host_bytes, at most 64 MiB
    logits_rows: Count | None = None
    host_bytes: Bytes | None = None  # of memory for what leaves the cells; None: a quarter of what is free
    disk_dir: str | None = None  # folder for what is to outlive the program; None: nothing does
    disk_bytes: Bytes = 4 << 30  # that the folder may take
    lora: tuple[tuple[str, float], ...] = ()  # files of LoRA adapters, and how much of each
    pooling: Literal["", "mean", "cls", "last"] = ""  # of embeddings; "" is the model's own
    nice: Amount = 0  # steps that the threads which compute stand back behind the caller's; Linux only
    step_seconds: Annotated[float, Meta(gt=0)] = 0.05  # time budget of one prompt chunk while branches write


class ModelInfo(Record, frozen=True):
    """Facts of a loaded model. Sizes in bytes, contexts in tokens."""

    path: str
    name: str
    description: str = ""
    architecture: str = ""
    n_params: int = 0
    size: int = 0
    n_vocab: int = 0
    n_ctx_train: int = 0
    n_ctx: int = 0
    n_embd: int = 0
    vocab: str = ""  # fingerprint of the vocabulary
    chat_template: str | None = None
    metadata: Mapping[str, str] = {}
    device: str = ""  # where it runs: the CPU, a GPU with how many of how many layers, or an address


class EngineStats(Record, frozen=True):
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
    host_bytes: int = 0  # of states in host memory
    disk_bytes: int = 0  # of states on disk
    saved_tokens: int = 0  # copied out of the cells
    restored_tokens: int = 0  # and back into them, instead of being evaluated again
    live_branches: int = 0
    waiting_requests: int = 0
