"""The one table of generation parameters: ranges, aliases, flags and help for every face.

Defaults are read from the dataclasses of :mod:`srbwriter.engine.types`, never written again. Must not import
anything heavy: the command line reads this table to print its help.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal, TypeGuard, cast, get_args

from . import limits
from .types import MAX_SEQUENCES, InvalidRequest, OutOfRange, Priority, Request, Sampling, Stop, Together

Kind = Literal["int", "float", "bool", "text", "choice", "texts", "ids", "biases"]
"""Shape of a value: the last three are sequences of strings, of token ids, of (token id, bias)."""

_RECORDS: dict[str, type[Sampling] | type[Stop] | type[Request]] = {
    "sampling": Sampling,
    "stop": Stop,
    "request": Request,
}
_KINDS: dict[str, Kind] = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "text",
    "tuple[str, ...]": "texts",
    "tuple[int, ...]": "ids",
    "tuple[tuple[int, float], ...]": "biases",
    "Priority": "choice",
    "Boundary": "choice",
    "Overflow": "choice",
    "Together": "choice",
}
_INT32 = 2**31 - 1
_SEED_MAX = 2**64 - 1
GROUPS = (
    "length",
    "basic",
    "truncation",
    "repetition",
    "DRY",
    "other samplers",
    "constraint",
    "variety",
    "request",
)


@dataclass(frozen=True)
class Parameter:
    """One field of a request.

    ``name`` is what faces call it, ``field`` what ``record`` calls it, ``title`` what people do.
    ``step`` is a sensible increment for a control; ``flags`` follow llama-server where it has the same
    thing. ``most`` entries may a sequence have, ``longest`` characters a text, ``in_all`` all texts of a
    sequence. A ``size`` above its maximum is refused by every face; other numbers out of range may be bent
    into it. ``elsewhere`` names the engines of others that take the field as it is, each with its name of
    the field where that is another one: ``llamacpp vllm=repetition_penalty``. ``first`` marks the few that
    writers change first.
    """

    record: Literal["sampling", "stop", "request"]
    field: str
    group: str
    title: str
    help: str
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    public: str = ""
    most: int | None = None
    longest: int | None = None
    in_all: int | None = None
    size: bool = False
    elsewhere: str = ""
    first: bool = False

    @property
    def name(self) -> str:
        return self.public or self.field

    @cached_property
    def annotation(self) -> str:
        """The field's type as written in the dataclass, without ``| None``."""
        return str(self._field.type).removesuffix(" | None")

    @cached_property
    def kind(self) -> Kind:
        return _KINDS[self.annotation]

    @cached_property
    def optional(self) -> bool:
        """Whether None is a value: off, or left to the engine."""
        return str(self._field.type).endswith(" | None")

    @cached_property
    def default(self) -> Any:
        return None if self._field.default is MISSING else self._field.default

    def check(self, value: Any, name: str = "") -> None:
        """Raise InvalidRequest for a value of another kind, OutOfRange for a number out of range.

        ``name`` is the spelling of the field that the error is to name.
        """
        if value is None and self.optional:
            return
        problem = self._problem(value)
        if problem:
            raise InvalidRequest(name or self.name, problem)
        if isinstance(value, (int, float)) and self.kind in ("int", "float"):
            limits.check_range(name or self.name, value, self.minimum, self.maximum)

    def clamp(self, value: float) -> float:
        """Return the nearest number in range."""
        value = value if self.minimum is None else max(value, self.minimum)
        return value if self.maximum is None else min(value, self.maximum)

    def fit(self, value: float, name: str = "", low: float | None = None) -> float:
        """Return the nearest number in range; raise OutOfRange for a size above its maximum.

        ``name`` is the spelling that the error is to name, ``low`` a minimum in place of the parameter's.
        """
        low = self.minimum if low is None else low
        if self.size and self.maximum is not None and value > self.maximum:
            raise OutOfRange(name or self.name, value, low, self.maximum)
        return max(self.clamp(value), value if low is None else low)

    @cached_property
    def _field(self) -> Any:
        return next(f for f in fields(_RECORDS[self.record]) if f.name == self.field)

    def _problem(self, value: Any) -> str:
        """Return the problem with ``value``, its range aside, or ""."""
        if not _is_kind(self.kind, value):
            return f"{reprlib.repr(value)} is not {_KIND_WORDS[self.kind]}"
        if self.choices and _text(value) not in self.choices:
            return f"{reprlib.repr(value)} is not one of {', '.join(self.choices)}"
        if isinstance(value, (int, float)):
            return ""
        return self._oversize(value) or self._unwritable(value)

    def _oversize(self, value: Any) -> str:
        if self.most is not None and len(value) > self.most:
            return f"{len(value)} entries, {self.most} are possible"
        lengths = [len(value)] if self.kind == "text" else map(len, value) if self.kind == "texts" else ()
        lengths = list(lengths)
        if self.longest is not None and max(lengths, default=0) > self.longest:
            return f"a text of {max(lengths)} characters, {self.longest} are possible"
        if self.in_all is not None and sum(lengths) > self.in_all:
            return f"{sum(lengths)} characters in all, {self.in_all} are possible"
        return ""

    def _unwritable(self, value: Any) -> str:
        """Texts to sample or stop by go to libraries that take whole characters only."""
        if self.kind not in ("text", "texts") or self.record not in ("sampling", "stop"):
            return ""
        for text in (value,) if self.kind == "text" else value:
            if not text.isascii() and _HALF.search(text):
                return f"{reprlib.repr(text)} holds half of a surrogate pair, which is no character"
        return ""


_HALF = re.compile("[\ud800-\udfff]")
_KIND_WORDS: dict[Kind, str] = {
    "int": "a whole number",
    "float": "a finite number",
    "bool": "true or false",
    "text": "text",
    "choice": "text",
    "texts": "a sequence of texts",
    "ids": "a sequence of token ids",
    "biases": "a sequence of (token id, bias), where a bias is a finite number or minus infinity",
}


def is_number(value: Any) -> TypeGuard[float]:
    """Whether ``value`` is a finite number that a float can hold; truths are none."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def _is_kind(kind: Kind, value: Any) -> bool:
    match kind:
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return is_number(value)
        case "bool":
            return isinstance(value, bool)
        case "text":
            return isinstance(value, str)
        case "choice":
            return isinstance(value, (str, IntEnum))
        case "texts":
            return _is_sequence(value) and all(isinstance(item, str) for item in value)
        case "ids":
            return _is_sequence(value) and all(_is_kind("int", item) for item in value)
        case "biases":
            return _is_sequence(value) and all(map(_is_bias, value))


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (tuple, list))


def _is_bias(item: Any) -> bool:
    if not _is_sequence(item) or len(item) != 2:
        return False
    token, bias = item[0], item[1]
    return _is_kind("int", token) and bool(bias == -math.inf or _is_kind("float", bias))


def _text(value: Any) -> str:
    return value.name.lower() if isinstance(value, IntEnum) else str(value)


def _sampling(
    field: str, group: str, title: str, help: str, minimum: float | None = None,
    maximum: float | None = None, step: float | None = None, **more: Any,
) -> Parameter:  # fmt: skip
    return Parameter("sampling", field, group, title, help, minimum, maximum, step, **more)


_STOPS: dict[str, Any] = {
    "most": limits.STOPS, "longest": limits.STOP_CHARS, "in_all": limits.STOPS_CHARS
}  # fmt: skip

PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "stop", "max_tokens", "length", "Longest branch",
              "Most tokens in one branch; 100 tokens are about 75 words. 0 writes nothing and "
              "only fills the cache.",
        0, limits.TOKENS, 16, size=True,
        aliases=("n_predict", "max_new_tokens", "max_length", "max_completion_tokens", "num_predict"),
        first=True, flags=("--max-tokens", "--predict", "--n-predict"),
    ),
    Parameter(
        "stop", "min_tokens", "length", "Shortest branch",
              "Tokens before which a branch does not end by itself.",
        0, _INT32, 1, aliases=("min_length",), flags=("--min-tokens",),
    ),
    Parameter(
        "stop", "strings", "length", "Stop text (cut off)",
              "Texts that end a branch; they are cut off.", public="stop",
        aliases=("stopping_strings", "stop_sequence", "stop_sequences"),
        flags=("--stop", "--reverse-prompt", "-r"), **_STOPS,
    ),
    Parameter(
        "stop", "boundary", "length", "End of a branch",
              "End each branch after a whole line, sentence or paragraph.",
        choices=("line", "sentence", "paragraph"), first=True, flags=("--boundary",),
    ),
    Parameter("stop", "after_any", "length", "Stop text (kept)",
              "Texts that end a branch; they are kept.",
              **_STOPS),
    Parameter("stop", "after_min_tokens", "length", "Stop text: not before",
              "Tokens before which a kept stop text does not end a branch.", 0, _INT32, 1),
    Parameter("stop", "token_ids", "length", "Stop tokens",
              "Ids of tokens that end a branch.", public="stop_token_ids",
              most=limits.IDS),
    Parameter(
        "stop", "include_string", "length", "Keep all stop texts",
              "Keep the stop text at the end of the branch.",
        public="include_stop", aliases=("include_stop_str_in_output",), flags=("--include-stop",),
    ),
    Parameter(
        "stop", "ignore_eog", "length", "Write past the end",
              "Keep writing where the model would end its text.", public="ignore_eos",
        aliases=("ban_eos_token", "use_default_badwordsids"), flags=("--ignore-eos",),
    ),
    Parameter(
        "stop", "max_seconds", "length", "Longest time",
              "Most seconds that a branch is written.", 0, None, 1,
        flags=("--max-seconds",),
    ),
    _sampling("temperature", "basic", "Temperature",
              "How adventurous the words are: higher is more surprising, 0 always takes the "
              "likeliest token.",
              0, 100, 0.05, aliases=("temp",), first=True, flags=("--temperature", "--temp"),
              elsewhere="llamacpp vllm"),
    _sampling("dynatemp_range", "basic", "Dynamic temperature",
              "Vary the temperature by up to this much: higher where many tokens are likely, "
              "lower where one is; 0 is off.",
              0, 100, 0.05, flags=("--dynatemp-range",),
              elsewhere="llamacpp"),
    _sampling("dynatemp_exponent", "basic", "Dynamic temperature exponent",
              "How steeply the temperature rises with the number of likely tokens.",
              0, 10, 0.1, flags=("--dynatemp-exp",),
              elsewhere="llamacpp"),
    _sampling("seed", "basic", "Seed",
              "The same seed, settings and number of branches give the same text.",
              0, _SEED_MAX, 1, aliases=("sampler_seed",), flags=("--seed", "-s")),
    _sampling("top_k", "truncation", "Top k",
              "Choose among this many of the likeliest tokens; 0 is off.",
              -1, _INT32, 5, flags=("--top-k",),
              elsewhere="llamacpp vllm"),
    _sampling("top_p", "truncation", "Top p (nucleus)",
              "Choose among the likeliest tokens that together have this probability; 1 is "
              "off.",
              0, 1, 0.01, flags=("--top-p",),
              elsewhere="llamacpp vllm"),
    _sampling("min_p", "truncation", "Min p",
              "Drop tokens less likely than this share of the likeliest one; 0 is off.",
              0, 1, 0.01, first=True, flags=("--min-p",),
              elsewhere="llamacpp vllm"),
    _sampling("typical_p", "truncation", "Typical p",
              "Prefer tokens that are about as surprising as expected, up to this total "
              "probability; 1 is off.",
              0, 1, 0.01, aliases=("typical", "typ_p"), flags=("--typical", "--typical-p"),
              elsewhere="llamacpp"),
    _sampling("top_n_sigma", "truncation", "Top n sigma",
              "Keep tokens whose logit is within this many standard deviations of the best; "
              "below 0 is off.",
              -1, 100, 0.1, aliases=("nsigma",), flags=("--top-nsigma", "--top-n-sigma"),
              elsewhere="llamacpp"),
    _sampling("xtc_probability", "truncation", "XTC probability",
              "How often XTC drops the likeliest tokens, all but the last of them; 0 is off.",
              0, 1, 0.05, flags=("--xtc-probability",),
              elsewhere="llamacpp"),
    _sampling("xtc_threshold", "truncation", "XTC threshold",
              "Tokens at least this likely can be dropped by XTC; above 0.5 is off.",
              0, 1, 0.05, flags=("--xtc-threshold",),
              elsewhere="llamacpp"),
    _sampling("min_keep", "truncation", "Min candidates",
              "Tokens that are always left to choose from, whatever the filters drop.",
              0, _INT32, 1,
              elsewhere="llamacpp"),
    _sampling("repeat_penalty", "repetition", "Repetition penalty",
              "Makes tokens that have occurred less likely; 1 is off.",
              0.01, 100, 0.05, aliases=("repetition_penalty", "rep_pen", "token_repetition_penalty_max"),
              flags=("--repeat-penalty",),
              elsewhere="llamacpp vllm=repetition_penalty"),
    _sampling("repeat_last_n", "repetition", "Penalty range",
              "How many tokens back the penalties look; -1 is the whole context.",
              -1, limits.TOKENS, 16, flags=("--repeat-last-n",),
              aliases=("repetition_penalty_range", "rep_pen_range", "penalty_range",
                       "token_repetition_penalty_sustain")),
    _sampling("frequency_penalty", "repetition", "Frequency penalty",
              "Lowers a token's logit by this each time it has occurred.",
              -100, 100, 0.05, flags=("--frequency-penalty",),
              elsewhere="llamacpp vllm"),
    _sampling("presence_penalty", "repetition", "Presence penalty",
              "Lowers a token's logit by this once it has occurred.",
              -100, 100, 0.05, flags=("--presence-penalty",),
              elsewhere="llamacpp vllm"),
    _sampling("dry_multiplier", "DRY", "Repetition (DRY)",
              "How strongly DRY avoids repeated phrases, such as 0.8; 0 is off.",
              0, 100, 0.05, first=True, flags=("--dry-multiplier",),
              elsewhere="llamacpp"),
    _sampling("dry_base", "DRY", "DRY growth",
              "How fast the DRY penalty grows with the length of the repetition.",
              1, 10, 0.05, flags=("--dry-base",),
              elsewhere="llamacpp"),
    _sampling("dry_allowed_length", "DRY", "DRY free length",
              "Tokens that may repeat before DRY acts.",
              0, _INT32, 1, flags=("--dry-allowed-length",),
              elsewhere="llamacpp"),
    _sampling("dry_penalty_last_n", "DRY", "DRY range",
              "How many tokens back DRY looks; -1 is the whole context.",
              -1, limits.TOKENS, 64, aliases=("dry_range",), flags=("--dry-penalty-last-n",)),
    _sampling("dry_sequence_breakers", "DRY", "DRY breakers",
              "Texts that end a repetition for DRY.",
              most=limits.BREAKERS, longest=limits.BREAKER_CHARS, flags=("--dry-sequence-breaker",)),
    _sampling("loop_guard", "repetition", "Loop guard",
              "A passage that stands so often in a row is a loop: the branch goes back to before it and "
              "writes something else. 3 is a good value; 0 is off.",
              0, limits.LOOP_TIMES, 1, flags=("--loop-guard",)),
    _sampling("mirostat", "other samplers", "Mirostat",
              "Keep the surprise of the text even, instead of filtering: version 1 or 2; 0 is "
              "off.",
              0, 2, 1, aliases=("mirostat_mode",), flags=("--mirostat",),
              elsewhere="llamacpp"),
    _sampling("mirostat_tau", "other samplers", "Mirostat surprise",
              "Surprise that mirostat aims at, in bits.",
              0, 100, 0.1, flags=("--mirostat-ent",),
              elsewhere="llamacpp"),
    _sampling("mirostat_eta", "other samplers", "Mirostat speed",
              "How fast mirostat corrects.",
              0, 1, 0.01, flags=("--mirostat-lr",),
              elsewhere="llamacpp"),
    _sampling("adaptive_target", "other samplers", "Adaptive p target",
              "Average probability that chosen tokens should have; below 0 is off.",
              -1, 1, 0.05, flags=("--adaptive-target",),
              elsewhere="llamacpp"),
    _sampling("adaptive_decay", "other samplers", "Adaptive p decay",
              "How long earlier tokens count for adaptive p.",
              0, 0.99, 0.01, flags=("--adaptive-decay",),
              elsewhere="llamacpp"),
    _sampling("infill", "other samplers", "Merge like beginnings",
              "Merge tokens that begin alike, for filling a gap in a text."),
    _sampling("samplers", "other samplers", "Order of samplers",
              "Samplers in the order in which they act; those that are left out are off.",
              most=limits.SAMPLERS, longest=limits.LIST_CHARS, flags=("--samplers",)),
    _sampling("logit_bias", "constraint", "Token biases",
              "Added to the logits of tokens; minus infinity forbids a token.",
              most=limits.BIASES, flags=("--logit-bias", "-l")),
    _sampling("banned_phrases", "constraint", "Banned phrases",
              "Phrases that never come: a branch that writes one goes back and writes "
              "something else.",
              most=limits.PHRASES, longest=limits.PHRASE_CHARS, in_all=limits.PHRASES_CHARS,
              aliases=("banned_strings", "banned_tokens"), first=True, flags=("--ban-phrase",)),
    _sampling("grammar", "constraint", "Grammar (GBNF)", "GBNF grammar that the text follows.",
              longest=limits.CONSTRAINT_CHARS, flags=("--grammar",),
              aliases=("grammar_string",)),
    _sampling("json_schema", "constraint", "JSON schema", "JSON schema that the text follows.",
              longest=limits.CONSTRAINT_CHARS, aliases=("guided_json",), flags=("--json-schema", "-j")),
    _sampling("regex", "constraint", "Regular expression", "Regular expression that the whole text matches.",
              longest=limits.CONSTRAINT_CHARS, aliases=("guided_regex",), flags=("--regex",)),
    Parameter("request", "siblings", "variety", "How branches differ",
              "independent: each by itself. distinct: no two begin with the same token, if "
              "another one is likely enough.",
              choices=get_args(Together)),
    Parameter("request", "n", "request", "Branches",
              "Branches of the prompt; by flags and over HTTP no more than --max-n, which is "
              "64 at most.", 1, MAX_SEQUENCES, 1, size=True,
              aliases=("n_cmpl",), flags=("--n", "-n")),
    Parameter("request", "priority", "request", "Priority",
              "Which requests are served first.",
              choices=tuple(p.name.lower() for p in Priority)),
    Parameter("request", "logprobs", "request", "Log-probabilities",
              "Log-probabilities of the chosen token and so many others.",
              0, limits.LOGPROBS, 1, size=True, aliases=("n_probs", "top_logprobs"), flags=("--logprobs",)),
    Parameter("request", "prompt_logprobs", "request", "Prompt log-probabilities",
              "The same for the tokens of the prompt.",
              0, limits.LOGPROBS, 1, size=True),
    Parameter("request", "next_logprobs", "request", "Next log-probabilities",
              "How many of the likeliest tokens after the prompt are returned.",
              0, limits.LOGPROBS, 1, size=True),
    Parameter("request", "next_ids", "request", "Next token ids",
              "Tokens whose probability after the prompt is returned.", most=limits.IDS),
    Parameter("request", "score_from", "request", "First scored token",
              "The first token of the prompt whose log-probability is returned.",
              0, limits.PROMPT_IDS, 1, size=True),
    Parameter("request", "begin", "request", "Forced beginning",
              "Tokens that each branch begins with, as if it had written them.", most=limits.PROMPT_IDS),
    Parameter("request", "without", "request", "Barred next tokens",
              "Tokens that may not come right after the forced beginning.", most=limits.IDS),
    Parameter("request", "heal", "request", "Complete the last word",
              "Let the first token complete the prompt's last word."),
    Parameter("request", "add_bos", "request", "Begin as the model expects",
              "Begin the prompt as the model expects.",
              aliases=("add_bos_token", "add_special_tokens")),
    Parameter("request", "parse_special", "request", "Read special tokens",
              "Read special tokens written out in the prompt."),
    Parameter("request", "overflow", "request", "When it does not fit",
              "When the prompt does not fit: refuse it, drop "
              "its beginning, or let that slide out while writing.", choices=("error", "truncate", "shift")),
    Parameter("request", "n_keep", "request", "Kept of the beginning",
              "Tokens at the start that overflow never drops; -1 is all.",
              -1, _INT32, 1, flags=("--keep",)),
    Parameter("request", "context", "request", "Longest context",
              "Tokens that prompt and text may have together; the beginning "
              "of a longer prompt is dropped.", 2, limits.TOKENS, 256, size=True,
              aliases=("truncation_length", "max_context_length", "num_ctx")),
    Parameter("request", "cache_prompt", "request", "Use the cache",
              "Use what the cache holds of the prompt; false evaluates "
              "all of it anew."),
    Parameter("request", "cache_salt", "request", "Cache salt",
              "Share the cache only with requests that give the same text here.", longest=1024),
)  # fmt: skip

BY_NAME: dict[str, Parameter] = {name: p for p in PARAMETERS for name in (p.name, *p.aliases)}
"""Every spelling that requests may use."""


def spelled(engine: str) -> dict[str, str]:
    """The fields of :class:`Sampling` that an engine elsewhere takes as they are, and its name of each."""
    rows = [(p.field, has.partition("=")) for p in PARAMETERS for has in p.elsewhere.split()]
    return {field: theirs or field for field, (name, _, theirs) in rows if name == engine}


_OF_SAMPLING = {p.field: p for p in PARAMETERS if p.record == "sampling"}


def validate(sampling: Sampling) -> None:
    """Raise InvalidRequest naming the first field that cannot mean anything."""
    for field, parameter in _OF_SAMPLING.items():
        parameter.check(getattr(sampling, field))
    if any(not text or "\0" in text for text in sampling.dry_sequence_breakers):
        raise InvalidRequest("dry_sequence_breakers", "a breaker cannot be empty or hold a NUL character")
    if any("\0" in text for text in sampling.banned_phrases):
        raise InvalidRequest("banned_phrases", "a phrase cannot hold a NUL character")
    notation(sampling)


def notation(sampling: Sampling) -> str | None:
    """The field that holds a constraint; raises InvalidRequest when more than one does."""
    given = [name for name in ("grammar", "json_schema", "regex") if getattr(sampling, name) is not None]
    if len(given) > 1:
        raise InvalidRequest(given[1], f"only one constraint is possible, and {given[0]} is given")
    return given[0] if given else None


def read_schema(text: str) -> dict[str, Any]:
    """Return a JSON schema whose objects have no other keys than it names, unless it says so.

    llama.cpp and OpenAI's strict mode read schemas like this: a small model that may add keys never ends an
    object. Raises InvalidRequest for text that is no schema.
    """
    import msgspec  # here, as help needs none

    try:
        schema: Any = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidRequest("json_schema", f"it is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise InvalidRequest("json_schema", "a schema is a JSON object")
    return cast("dict[str, Any]", _closed(schema))


_OF_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions")
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "prefixItems")
_OPENING = {
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "$ref",
}


def _closed(schema: Any) -> Any:
    """Return a schema with ``additionalProperties`` false for each object with properties of its own.

    Not within ``allOf``, whose members describe one object together.
    """
    if not isinstance(schema, dict):
        return schema
    closed = dict(cast("dict[str, Any]", schema))
    for name in _OF_SCHEMAS:
        if isinstance(inner := closed.get(name), dict):
            closed[name] = {key: _closed(one) for key, one in cast("dict[str, Any]", inner).items()}
    for name in _LISTS_OF_SCHEMAS:
        if isinstance(inner := closed.get(name), list):
            closed[name] = [_closed(one) for one in cast("list[Any]", inner)]
    for name in ("items", "additionalProperties"):
        if name in closed:
            closed[name] = _closed(closed[name])
    if isinstance(closed.get("properties"), dict) and not _OPENING & closed.keys():
        closed["additionalProperties"] = False
    return closed


SAMPLERS: Mapping[str, tuple[str, ...]] = {
    "penalties": ("e",),
    "dry": ("d",),
    "top_n_sigma": ("s", "top-n-sigma"),
    "top_k": ("k", "top-k"),
    "typ_p": ("y", "typical_p", "typical-p", "typical", "typ-p", "typ"),
    "top_p": ("p", "top-p", "nucleus"),
    "min_p": ("m", "min-p"),
    "xtc": ("x",),
    "temperature": ("t", "temp"),
    "infill": ("i",),
    "adaptive_p": ("a", "adaptive-p"),
}
"""Samplers that have a place in an order; for each llama.cpp's letter and its other spellings."""

DEFAULT_ORDER = (
    "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "infill", "xtc", "temperature",
)  # fmt: skip
"""The order in which they act where none is given; ``infill`` only where that is asked for."""

_SPELLINGS = {spelling: name for name, others in SAMPLERS.items() for spelling in (name, *others)}


def sampler_order(names: Iterable[str]) -> tuple[str, ...]:
    """Canonical sampler names in the order given; unknown ones are skipped. A plain string is letters."""
    return tuple(_SPELLINGS[name] for name in names if name in _SPELLINGS)
