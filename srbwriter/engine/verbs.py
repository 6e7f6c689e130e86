"""The table of verbs: commands that steer a branch or a request, with their arguments and states.

The handles, their check, both engines, the session, the app and the HTTP routes read this table. An engine
has a method for each verb.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from . import limits
from .parameters import BY_NAME
from .types import BranchState, FinishReason, InvalidRequest, Priority, Sampling, Stop

if TYPE_CHECKING:
    from .generation import Branch

BranchVerb = Literal[
    "stop", "kill", "pause", "resume", "reroll", "extend", "rewind", "append", "change", "set_prompt",
]  # fmt: skip
State = Literal["writing", "paused", "ended"]
Kind = Literal["branches", "count", "seed", "text", "flag", "ids", "sampling", "stop", "priority"]


STATE_WORDS: Mapping[State, str] = {
    "writing": "is still writing", "paused": "is paused", "ended": "has ended already"
}  # fmt: skip
_TYPES: Mapping[Kind, type] = {
    "branches": int, "count": int, "seed": int, "text": str, "flag": bool, "ids": tuple,
    "sampling": Sampling, "stop": Stop, "priority": Priority,
}  # fmt: skip
_SEED = BY_NAME["seed"]
REQUIRED: Any = object()
"""The default of an argument that has to be given."""


@dataclass(frozen=True)
class Argument:
    """One argument of a verb. None is a value where it is the default.

    With ``each`` it may also be a tuple of one value for each new branch. ``field`` is its name in an HTTP
    body where that is another; a sampling and a stop rule are fields of the body themselves.
    """

    name: str
    kinds: tuple[Kind, ...]
    help: str
    default: Any = None
    each: bool = False
    field: str = ""

    def check(self, verb: str, value: Any) -> None:
        """Raise InvalidRequest for a value of another kind, or one that is out of range."""
        types = tuple(_TYPES[kind] for kind in self.kinds)
        if value is None and self.default is None:
            return
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise InvalidRequest(verb, f"it cannot take {value!r}")
        if isinstance(value, int) and value < 0:
            raise InvalidRequest(verb, f"{value} is less than 0")
        if "seed" in self.kinds:
            _SEED.check(value)
        if isinstance(value, str):
            limits.check_prompt("text", len(value))


@dataclass(frozen=True)
class Verb:
    """One verb. ``states`` are those of a branch in which it does something; in others it does nothing.

    ``always`` is an argument with which it does something in every state.
    """

    name: str
    help: str
    arguments: tuple[Argument, ...] = ()
    states: tuple[State, ...] = ("writing", "paused", "ended")
    always: str = ""
    whole: bool = False  # about a request, not one branch
    http: bool = True  # a route has its name
    ends: FinishReason | None = None  # ends branches for this reason and does no more
    revives: bool = False  # a request that was done may go on after it
    interrupts: bool = False  # a long prompt of the request is not finished for it

    def problem(self, branch: Branch, given: Mapping[str, Any] | None = None) -> str:
        """Return why the verb does nothing to ``branch`` now, in words; "" if it does something."""
        state = state_of(branch)
        useful = state in self.states or self.always and (given or {}).get(self.always) is not None
        return "" if useful else STATE_WORDS[state]


def state_of(branch: Branch) -> State:
    paused = branch.state is BranchState.PAUSED
    return "paused" if paused else "writing" if branch.live else "ended"


_LIVE: tuple[State, ...] = ("writing", "paused")
_SAMPLING = Argument("sampling", ("sampling",), "how it chooses tokens; what is not given stays")
_STOP = Argument("stop", ("stop",), "when it ends; what is not given stays")
_SEEDED = Argument("seed", ("seed",), "where chance begins; a new seed is drawn without it")
_BEGIN = (
    Argument("begin", ("ids",), "tokens to begin with", ()),
    Argument("without", ("ids",), "tokens that may not follow those", ()),
)
_VERBS = (
    Verb("stop", "End it here and keep its text.", states=_LIVE, ends=FinishReason.STOPPED, interrupts=True),
    Verb("kill", "End it, or one that has ended, and free its memory; the text can still be read.",
         ends=FinishReason.KILLED, interrupts=True),
    Verb("pause", "Hold it still.", states=("writing",)),
    Verb("resume", "Let it write on.", states=("paused",)),
    Verb("reroll", "Start over from the prompt.", (_SEEDED, _SAMPLING, _STOP, *_BEGIN),
         revives=True, interrupts=True),
    Verb("extend", "Write on from where it ended. With an argument, one that still writes gets it, too.",
         (Argument("stop", ("stop", "count"), "so many tokens more, or a stop rule", field="max_tokens"),),
         states=("ended",), always="stop", revives=True),
    Verb("rewind", "Drop the last tokens, characters or sentences (exactly one of these) and write on.",
         (Argument("tokens", ("count",), "so many"), Argument("chars", ("count",), "so many"),
          Argument("sentences", ("count",), "so many"), _SEEDED), revives=True),
    Verb("append", "Add text as if the model had written it; one that writes goes on from there.",
         (Argument("text", ("text",), "the text", REQUIRED),
          Argument("go_on", ("flag",), "let one that has ended write on, as much as after extend", False)),
         revives=True),
    Verb("change", "Choose the next tokens differently, or end by other rules; neither where one is refused.",
         (_SAMPLING, _STOP)),
    Verb("set_prompt", "Continue its text after another prompt.",
         (Argument("prompt", ("ids",), "tokens that end as the request's do; none for those", REQUIRED),),
         http=False),
    Verb("cancel", "Stop every branch and keep the text.", whole=True, http=False, ends=FinishReason.STOPPED,
         interrupts=True),
    Verb("add_branch", "Add branches of the prompt.",
         (Argument("n", ("branches",), "how many", 1), replace(_SAMPLING, each=True),
          replace(_STOP, each=True), *_BEGIN),
         whole=True, http=False, revives=True),
    Verb("promote", "Serve the request sooner from now on.",
         (Argument("priority", ("priority",), "how soon", Priority.NORMAL),), whole=True, http=False),
)  # fmt: skip
VERBS: Mapping[str, Verb] = {verb.name: verb for verb in _VERBS}
HTTP_VERBS = tuple(verb for verb in _VERBS if verb.http)
INTERRUPTING = frozenset(verb.name for verb in _VERBS if verb.interrupts)
REVIVING = frozenset(verb.name for verb in _VERBS if verb.revives)
STARTING = REVIVING | {"submit", "resume"}
"""Verbs after which a request may have something to do."""
