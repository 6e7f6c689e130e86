"""The table of verbs: commands that steer a branch or a request, with their arguments and states.

The handles, their check, both engines, the session, the app and the HTTP routes read this table. An engine
has a method for each verb.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from .parameters import BY_NAME
from .types import BranchState, FinishReason, InvalidRequest, Priority, Sampling, Stop

if TYPE_CHECKING:
    from .generation import Branch

BranchVerb = Literal[
    "stop", "kill", "pause", "resume", "reroll", "extend", "rewind", "change", "set_prompt",
]  # fmt: skip
State = Literal["writing", "paused", "ended"]


STATE_WORDS: Mapping[State, str] = {
    "writing": "is still writing", "paused": "is paused", "ended": "has ended already"
}  # fmt: skip
REQUIRED: Any = object()
"""The default of an argument that has to be given."""
_NUMBER: Any = Annotated[int, Meta(ge=0)]
_COUNT: Any = _NUMBER | None
_IDS: Any = tuple[int, ...]


@dataclass(frozen=True)
class Argument:
    """One argument of a verb; ``kind`` is its type.

    ``field`` is its name in an HTTP body where that is another; a sampling and a stop rule are fields of the
    body themselves.
    """

    name: str
    kind: Any
    help: str
    default: Any = None
    field: str = ""

    def check(self, verb: str, value: Any) -> None:
        """Raise InvalidRequest for a value of another kind, or one that is out of range."""
        if self.name == "seed" and value is not None:
            BY_NAME["seed"].check(value)
        try:
            msgspec.convert(value, self.kind)
        except msgspec.ValidationError:
            raise InvalidRequest(verb, f"it cannot take {value!r}") from None


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
_SAMPLING = Argument("sampling", Sampling | None, "how it chooses tokens; what is not given stays")
_STOP = Argument("stop", Stop | None, "when it ends; what is not given stays")
_SEED = Argument("seed", _COUNT, "where chance begins; a new seed is drawn without it")
_BEGIN = (
    Argument("begin", _IDS, "tokens to begin with", ()),
    Argument("without", _IDS, "tokens that may not follow those", ()),
)
_VERBS = (
    Verb("stop", "End it here and keep its text.", states=_LIVE, ends=FinishReason.STOPPED, interrupts=True),
    Verb("kill", "End it, or one that has ended, and free its memory; the text can still be read.",
         ends=FinishReason.KILLED, interrupts=True),
    Verb("pause", "Hold it still.", states=("writing",)),
    Verb("resume", "Let it write on.", states=("paused",)),
    Verb("reroll", "Start over from the prompt.", (_SEED, _SAMPLING, _STOP, *_BEGIN),
         revives=True, interrupts=True),
    Verb("extend", "Write on from where it ended. With an argument, one that still writes gets it, too.",
         (Argument("stop", Stop | _COUNT, "so many tokens more, or a stop rule", field="max_tokens"),),
         states=("ended",), always="stop", revives=True),
    Verb("rewind", "Drop the last tokens, characters or sentences (exactly one of these) and write on.",
         (Argument("tokens", _COUNT, "so many"), Argument("chars", _COUNT, "so many"),
          Argument("sentences", _COUNT, "so many"), _SEED), revives=True),
    Verb("change", "Choose the next tokens differently, or end by other rules; neither where one is refused.",
         (_SAMPLING, _STOP)),
    Verb("set_prompt", "Continue its text after another prompt.",
         (Argument("prompt", _IDS, "tokens that end as the request's do; none for those", REQUIRED),),
         http=False),
    Verb("cancel", "Stop every branch and keep the text.", whole=True, http=False, ends=FinishReason.STOPPED,
         interrupts=True),
    Verb("add_branch", "Add branches of the prompt.",
         (Argument("n", int, "how many", 1), _SAMPLING, _STOP, *_BEGIN),
         whole=True, http=False, revives=True),
    Verb("promote", "Serve the request sooner from now on.",
         (Argument("priority", Priority, "how soon", Priority.NORMAL),), whole=True, http=False),
)  # fmt: skip
VERBS: Mapping[str, Verb] = {verb.name: verb for verb in _VERBS}
HTTP_VERBS = tuple(verb for verb in _VERBS if verb.http)
INTERRUPTING = frozenset(verb.name for verb in _VERBS if verb.interrupts)
REVIVING = frozenset(verb.name for verb in _VERBS if verb.revives)
STARTING = REVIVING | {"submit", "resume"}
"""Verbs after which a request may have something to do."""
