"""Writes docs/sampling.md from the table of parameters: ``python -m tools.sampling_page``."""

from __future__ import annotations

from pathlib import Path

from srbwriter.engine.bans import TRIES
from srbwriter.engine.compat import GONE, Gone
from srbwriter.engine.parameters import DEFAULT_ORDER, GROUPS, PARAMETERS, SAMPLERS, Parameter, number_words
from srbwriter.engine.sampling import PREFILTER

PAGE = Path(__file__).parent.parent / "docs" / "sampling.md"

_HEAD = """\
# Sampling

<!-- Made by `python -m tools.sampling_page` from the table of parameters. Change that, not this page. -->

Every branch has a sampler of its own: its own seed, its own history. Names, meanings and defaults are
llama.cpp's.
"""

_ORDER = f"""\
## Order

Bias and forbidden tokens come first. Then, unless `samplers` says otherwise:
{", ".join(f"`{name}`" for name in DEFAULT_ORDER)}. The selector comes last.

- `samplers` is taken literally; names that do not exist are skipped. Names:
  {", ".join(f"`{name}`" for name in SAMPLERS)}.
- A temperature of 0 takes the likeliest token after bias, penalties and DRY; no truncation acts.
- Mirostat replaces truncation and the selector; `adaptive_target` replaces the selector.
- When nothing truncates a large vocabulary before a sampler that sorts it (`top_p`, `typical_p`, XTC,
  mirostat, a dynamic temperature), that sampler sees the {PREFILTER} likeliest tokens. Sorting 128 000 of
  them takes 7 to 20 ms a token, this 0.4 ms. An order given in `samplers` is left alone.
- `infill` compares candidates pairwise and sees the 64 likeliest.

## Seeds

Equal seeds, settings, number of branches and an idle engine give equal text on one machine. Every sampler
that draws (the selector, XTC) gets a seed of its own, derived from the branch's. A branch that goes on,
extended, typed into or with other settings, draws on from where it was, and mirostat and `adaptive_target`
keep what they have learnt; a seed that is given with new settings begins anew.

## Constraints

At most one of `grammar`, `json_schema` and `regex`. All three run on
[llguidance](https://github.com/guidance-ai/llguidance). A branch ends when its constraint is fulfilled
for good; the model may end its text wherever the constraint may. Where no token is left before that, where
typed text breaks the constraint, or where it is beyond llguidance's limits (2000 optional keys of an object
are), the branch ends with an error that says so. A grammar that takes long is followed in a process of its
own: its branches sit out the steps until that has answered, and nobody else waits. A constraint begins where
the prompt ends: `heal` is off with one.

- `grammar` is GBNF as llama.cpp reads it. `!<token>` is refused; a left-recursive grammar is understood here.
  Control tokens are no text: only `<[id]>` or `<name>` lets one through.
- `json_schema` writes a space, or up to two line ends and an indent of 20, in one place.
- `regex` has the syntax of Rust's `regex` crate; `\\d` is an ASCII digit. The whole text matches.

## Banned phrases

`banned_phrases` are looked for in the text, however it is made of tokens. Small and large letters are alike,
so are straight and curly quotation marks, and any whitespace is one space. A phrase that begins with a letter
or digit begins where a word does; where it ends does not matter (`shiver` is found in *shivers*). It may
begin in the prompt's last words, but what somebody typed is never touched.

Text that may become a phrase is held back. Once it is one, the branch goes back to its last token that could
well have been another (at least one time in ten), and that token is not chosen at this place again. All else
stays as it was: the token elsewhere, chance, penalties, limits. After {TRIES} attempts it goes back behind
the beginning of the phrase, which can cut published text; after {2 * TRIES} it lets the phrase be.
"""

_GONE = """\
## Gone

What other programs may send and llama.cpp does not have (any more). A refused field is a 400 that names the
values which pass: those listed, null, `""` and empty lists.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, *map(_group, GROUPS), _ORDER, _GONE, _gone()]
    return "\n".join(parts)


def _group(group: str) -> str:
    rows = [_row(p) for p in PARAMETERS if p.group == group]
    head = "| Parameter | Default | Range | Meaning | Also called | Flags |\n|---|---|---|---|---|---|\n"
    return f"## {group[0].upper()}{group[1:]}\n\n{head}{''.join(rows)}"


def _row(p: Parameter) -> str:
    cells = (_code((p.name,)), _default(p), _range(p), p.help, _code(p.aliases), _code(p.flags))
    return "| " + " | ".join(cells) + " |\n"


def _code(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _default(p: Parameter) -> str:
    if p.default is None or p.default == ():
        return "–"
    if p.choices and not isinstance(p.default, str):
        return f"`{p.default.name.lower()}`"
    if p.kind == "texts":
        return " ".join(f"`{text!r}`" for text in p.default)
    return f"`{str(p.default).lower()}`"


def _range(p: Parameter) -> str:
    if p.choices:
        return _code(p.choices)
    if p.minimum is None:
        bounds = (f"{p.most} at most" * bool(p.most), f"{p.longest} characters" * bool(p.longest),
                  f"{p.in_all} in all" * bool(p.in_all))  # fmt: skip
        return ", ".join((p.kind, *filter(None, bounds)))
    return f"{number_words(p.minimum)} … {number_words(p.maximum)}".strip()


def _gone() -> str:
    rows = [f"| {_code(gone.names)} | {gone.treatment} | {_passing(gone)} | {gone.why} |\n" for gone in GONE]
    return "| Names | What happens | Passes | Why |\n|---|---|---|---|\n" + "".join(rows)


def _passing(gone: Gone) -> str:
    if gone.treatment != "refused":
        return "any value"
    return ", ".join(f"`{str(value).lower()}`" for value in gone.neutral) or "nothing"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
