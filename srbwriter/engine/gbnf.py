"""GBNF, llama.cpp's grammar notation, to the Lark notation of llguidance.

GBNF knows no lexer, llguidance's takes the longest match. The two accept the same texts when every character
is a terminal of its own, or when the whole grammar is a single one. Knows no model and no tokens beyond the
ids that a grammar writes out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from typing import NoReturn, TypeAlias

from .types import InvalidRequest

MAX_DEPTH = 100  # groups within groups
MAX_REPEAT = 2000  # llama.cpp's MAX_REPETITION_THRESHOLD; a higher maximum is none

_WORDS = re.compile(
    r"""(?P<space>[ \t]+|\#[^\r\n]*)
    |(?P<line>[\r\n])
    |(?P<define>::=)
    |(?P<name>[A-Za-z0-9_-]+)
    |"(?P<text>(?:\\.|[^"\\])*)"
    |\[(?P<range>(?:\\.|[^]\\])*)\]
    |(?P<repeat>[*+?]|\{\s*(?P<low>\d+)\s*(?P<comma>,?)\s*(?P<high>-1|\d*)\s*\})
    |<(?:\[(?P<id>\d+)\]|(?P<token>[^>]*))>
    |(?P<sign>[()|.])
    |(?P<wrong>.)""",
    re.VERBOSE | re.DOTALL,
)
_CHAR = r'\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\[]trn\\"[]|[^\\]'
_CHARS = re.compile(f"(?:{_CHAR})*", re.DOTALL)
_RANGES = re.compile(f"({_CHAR})(?:-({_CHAR}))?", re.DOTALL)
_REFERENCE = re.compile(r"\{\{([A-Za-z0-9_-]+)\}\}")  # until rules are numbered
_LETTERS = {"t": "\t", "r": "\r", "n": "\n"}
_ANY = "/(?s:.)/"
_SURROGATES = (0xD800, 0xDFFF)
_LAST = 0x10FFFF
_WRONG = {
    '"': "a quote or bracket is not closed",
    "[": "a quote or bracket is not closed",
    "{": "{m}, {m,} or {m,n} is expected here",
    "<": "a token is written <[id]> or <text>",
    "!": "'!' before a token cannot be had; list what may stand there instead",
}

Alternatives: TypeAlias = "list[list[str]]"
"""Sequences of items in Lark, of which one is to be written."""


def to_lark(grammar: str, token_id: Callable[[str], int | None]) -> list[str]:
    """The grammar in Lark notation, the faster form first; ``token_id`` finds the token of a ``<text>``.

    A grammar without recursion is one regular expression, and so one single terminal; llguidance may find it
    too large, and then takes the second form. Raises InvalidRequest that names the line.
    """
    rules, references, has_tokens = _parse(grammar, token_id)
    forms = [_lark(rules, "r")]
    try:
        TopologicalSorter(references).prepare()
    except CycleError:
        return forms
    return forms if has_tokens else [_lark(rules, "R"), *forms]  # capital names are terminals


def _lark(rules: dict[str, str], letter: str) -> str:
    numbers = {name: f"{letter}{i}" for i, name in enumerate(rules)}
    text = "\n".join(f"{numbers[name]}: {body}" for name, body in rules.items())
    return f"start: {numbers['root']}\n{_REFERENCE.sub(lambda match: numbers[match[1]], text)}\n"


def _parse(
    grammar: str, token_id: Callable[[str], int | None]
) -> tuple[dict[str, str], dict[str, set[str]], bool]:
    """Return the rules in Lark, what each refers to, and whether any names tokens of a vocabulary.

    The syntax is that of ``llama-grammar.cpp``: a line's end ends a rule, but not within a group, nor right
    after ``::=`` or ``|``.
    """
    rules, references, uses = dict[str, str](), dict[str, set[str]](), dict[str, int]()
    name, groups, goes_on, has_tokens = "", list[Alternatives](), False, False  # groups that are open

    def fail(problem: str, at: int) -> NoReturn:
        raise InvalidRequest("grammar", f"line {grammar.count(chr(10), 0, at) + 1}: {problem}")

    for match in _WORDS.finditer(grammar):
        kind, word, at = match.lastgroup or "", match[0], match.start()
        if kind == "space" or (kind == "line" and (goes_on or len(groups) != 1)):
            continue
        if kind == "line":
            rules[name] = _join(groups.pop())
            name = ""
        elif not name:
            if kind != "name":
                fail("a rule name is expected here", at)
            if word in references:
                fail(f"rule {word!r} is defined twice", at)
            name, references[word] = word, set()
        elif not groups:
            if kind != "define":
                fail(f"'::=' is expected after {name!r}", at)
            groups.append([[]])
        else:
            items = groups[-1][-1]
            if kind == "name":
                uses.setdefault(word, at)
                references[name].add(word)
                items.append(f"{{{{{word}}}}}")
            elif kind in ("text", "range"):
                characters = match[kind]
                if (good := _CHARS.match(characters)) and good.end() < len(characters):
                    fail(f"{characters[good.end() : good.end() + 2]!r} is not an escape", at)
                made = _literal(characters) if kind == "text" else _char_class(characters)
                items.append(made or fail("a range of characters ends before it begins", at))
            elif kind in ("repeat", "high"):
                if not items:
                    fail(f"nothing stands before {word[0]!r}", at)
                low, high = int(match["low"] or 0), (match["high"] or "").removeprefix("-1")
                if low > MAX_REPEAT:
                    fail(f"at most {MAX_REPEAT} repetitions are possible", at)
                if match["comma"] and high and int(high) < low:
                    fail(f"{{{low},{high}}} is never met", at)
                items[-1] = _repeated(items[-1], word, low, bool(match["comma"]), high)
            elif kind in ("id", "token"):
                has_tokens, found = True, int(match["id"]) if match["id"] else token_id(word)
                if found is None:
                    fail(f"{word} is not one token of this model", at)
                items.append(f"<[{found}]>")
            elif word == "(":
                if len(groups) > MAX_DEPTH:
                    fail(f"more than {MAX_DEPTH} groups stand within each other", at)
                groups.append([[]])
            elif word == ")" and len(groups) > 1:
                group = groups.pop()
                groups[-1][-1].append(f"({_join(group)})")
            elif word == "|":
                groups[-1].append([])
            elif word == ".":
                items.append(_ANY)
            else:
                fail(_WRONG.get(word, f"{word!r} has no meaning here"), at)
        goes_on = kind == "define" or word == "|"
    if len(groups) == 1:
        rules[name] = _join(groups.pop())
    elif groups or name not in rules and name:
        fail("')' is missing" if groups else f"'::=' is expected after {name!r}", len(grammar))
    for used, at in uses.items():
        if used not in rules:
            fail(f"rule {used!r} is not defined", at)
    if "root" not in rules:
        raise InvalidRequest("grammar", "there is no rule 'root' to begin with")
    return rules, references, has_tokens


def _join(alternatives: Alternatives) -> str:
    return " | ".join(" ".join(items) or '""' for items in alternatives)


def _repeated(item: str, sign: str, low: int, comma: bool, high: str) -> str:
    """Return an item with ``*``, ``+``, ``?``, or a number of repetitions."""
    if len(sign) == 1:
        return f"({item}){sign}"
    most = "" if comma and (not high or int(high) > MAX_REPEAT) else high if comma else str(low)
    return '""' if most == "0" else f"({item}){{{low},{most}}}"


def _literal(characters: str) -> str:
    found = [f"/{_code(_point(match[0]))}/" for match in re.finditer(_CHAR, characters, re.DOTALL)]
    return f"({' '.join(found)})" if len(found) > 1 else "".join(found) or '""'


def _char_class(characters: str) -> str | None:
    """Return a class of characters; None for a range that ends before it begins."""
    sign, ranges = "^" * characters.startswith("^"), ""
    for match in _RANGES.finditer(characters, len(sign)):
        low, high = _scalar(_point(match[1]), up=True), _scalar(_point(match[2] or match[1]), up=not match[2])
        if high < low:
            return None
        ranges += f"{_code(low)}-{_code(high)}"
    return f"/[{sign}{ranges}]/" if ranges else '""'


def _point(char: str) -> int:
    """Return the code point of a character or an escape."""
    if len(char) > 2:
        return int(char[2:], 16)
    return ord(char if len(char) == 1 else _LETTERS.get(char[1], char[1]))


def _code(point: int) -> str:
    return f"\\x{{{_scalar(point, up=True):x}}}"


def _scalar(point: int, up: bool) -> int:
    """The nearest code point that text can hold."""
    low, high = _SURROGATES
    if low <= point <= high:
        return high + 1 if up else low - 1
    return min(point, _LAST)
