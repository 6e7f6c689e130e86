"""GBNF, llama.cpp's grammar notation, to the Lark notation of llguidance.

GBNF knows no lexer, llguidance's takes the longest match. The two accept the same texts when every character
is a terminal of its own, or when the whole grammar is a single one. Knows no model and no tokens beyond the
ids that a grammar writes out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from typing import NoReturn

from .types import InvalidRequest

MAX_DEPTH = 100  # groups within groups
MAX_REPEAT = 2000  # llama.cpp's MAX_REPETITION_THRESHOLD; a higher maximum is none

_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_REPEAT = re.compile(r"\{\s*(\d+)\s*(,?)\s*(-1|\d*)\s*\}")
_TOKEN = re.compile(r"<(?:\[(\d+)\]|([^>]*))>")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([]trn\\\"\[]))")
_REFERENCE = re.compile(r"\{\{([A-Za-z0-9_-]+)\}\}")  # as the parser writes it, until rules are numbered
_LETTERS = {"t": "\t", "r": "\r", "n": "\n"}
_ANY = "/(?s:.)/"
_SURROGATES = (0xD800, 0xDFFF)
_LAST = 0x10FFFF


def to_lark(grammar: str, token_id: Callable[[str], int | None]) -> list[str]:
    """The grammar in Lark notation, the faster form first; ``token_id`` finds the token of a ``<text>``.

    A grammar without recursion is one regular expression, and so one single terminal; llguidance may find it
    too large, and then takes the second form. Raises InvalidRequest that names the line.
    """
    parser = _Parser(grammar, token_id)
    parser.parse()
    forms = [_lark(parser.rules, "r")]
    if not parser.has_tokens and not _recursive(parser.references):
        forms.insert(0, _lark(parser.rules, "R"))  # capital names are terminals
    return forms


def _recursive(references: dict[str, set[str]]) -> bool:
    try:
        TopologicalSorter(references).prepare()
    except CycleError:
        return True
    return False


def _lark(rules: dict[str, str], letter: str) -> str:
    numbers = {name: f"{letter}{i}" for i, name in enumerate(rules)}
    text = "\n".join(f"{numbers[name]}: {body}" for name, body in rules.items())
    return f"start: {numbers['root']}\n{_REFERENCE.sub(lambda match: numbers[match[1]], text)}\n"


class _Parser:
    """Recursive descent over the syntax of ``llama-grammar.cpp``, writing Lark as it goes."""

    def __init__(self, text: str, token_id: Callable[[str], int | None]) -> None:
        self.text = text
        self.token_id = token_id
        self.at = 0
        self.depth = 0
        self.name = ""  # of the rule at hand
        self.rules: dict[str, str] = {}
        self.references: dict[str, set[str]] = {}
        self.first_use: dict[str, int] = {}
        self.has_tokens = False

    def parse(self) -> None:
        self.space(lines=True)
        while self.at < len(self.text):
            self.rule()
        for name, at in self.first_use.items():
            if name not in self.rules:
                self.fail(f"rule {name!r} is not defined", at)
        if "root" not in self.rules:
            raise InvalidRequest("grammar", "there is no rule 'root' to begin with")

    def fail(self, problem: str, at: int | None = None) -> NoReturn:
        line = self.text.count("\n", 0, self.at if at is None else at) + 1
        raise InvalidRequest("grammar", f"line {line}: {problem}")

    def space(self, lines: bool) -> None:
        """Go past spaces and comments; with ``lines`` past line ends too."""
        match = (_SPACE_AND_LINES if lines else _SPACE).match(self.text, self.at)
        self.at = match.end() if match else self.at

    def rule_name(self) -> str:
        """Return the name at this place, "" if there is none."""
        match = _NAME.match(self.text, self.at)
        return "" if match is None else match[0]

    def take(self, text: str) -> bool:
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def rule(self) -> None:
        self.name = self.rule_name()
        if not self.name:
            self.fail("a rule name is expected here")
        if self.name in self.rules:
            self.fail(f"rule {self.name!r} is defined twice")
        self.at += len(self.name)
        self.space(lines=False)
        if not self.take("::="):
            self.fail(f"'::=' is expected after {self.name!r}")
        self.space(lines=True)
        self.references[self.name] = set()
        self.rules[self.name] = self.alternatives(nested=False)
        if self.at < len(self.text) and self.text[self.at] not in "\r\n":
            self.fail(f"{self.text[self.at]!r} has no meaning here")
        self.space(lines=True)

    def alternatives(self, nested: bool) -> str:
        found = [self.sequence(nested)]
        while self.take("|"):
            self.space(lines=True)
            found.append(self.sequence(nested))
        return " | ".join(found)

    def sequence(self, nested: bool) -> str:
        items: list[str] = []
        while self.at < len(self.text):
            item = self.repetition(items) or self.item()
            if item is None:
                break
            items.append(item)
            self.space(nested)
        return " ".join(items) or '""'

    def repetition(self, items: list[str]) -> str | None:
        """The last item with the repetition that follows it, if one does."""
        sign = self.text[self.at]
        if sign not in "*+?{":
            return None
        if not items:
            self.fail(f"nothing stands before {sign!r}")
        if sign != "{":
            self.at += 1
            return f"({items.pop()}){sign}"
        match = _REPEAT.match(self.text, self.at)
        if match is None:
            self.fail("{m}, {m,} or {m,n} is expected here")
        low, comma, high = int(match[1]), match[2], match[3].removeprefix("-1")
        if low > MAX_REPEAT:
            self.fail(f"at most {MAX_REPEAT} repetitions are possible")
        if comma and high and int(high) < low:
            self.fail(f"{{{low},{high}}} is never met")
        self.at = match.end()
        most = "" if comma and (not high or int(high) > MAX_REPEAT) else high if comma else str(low)
        if most == "0":
            items.pop()
            return '""'
        return f"({items.pop()}){{{low},{most}}}"

    def item(self) -> str | None:
        sign = self.text[self.at]
        if sign == '"':
            return self.literal()
        if sign == "[":
            return self.char_class()
        if sign == "(":
            return self.group()
        if sign == ".":
            self.at += 1
            return _ANY
        if sign in "<!":
            return self.token()
        name = self.rule_name()
        if not name:
            return None
        self.first_use.setdefault(name, self.at)
        self.references[self.name].add(name)
        self.at += len(name)
        return f"{{{{{name}}}}}"  # numbered once all rules are known

    def literal(self) -> str:
        self.at += 1
        found: list[str] = []
        while not self.take('"'):
            found.append(f"/{_code(self.char())}/")
        return f"({' '.join(found)})" if len(found) > 1 else "".join(found) or '""'

    def char_class(self) -> str:
        self.at += 1
        sign = "^" if self.take("^") else ""
        ranges: list[str] = []
        while not self.take("]"):
            low = high = self.char()
            if self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at):
                self.at += 1
                high = self.char()
                low, high = _scalar(low, up=True), _scalar(high, up=False)
                if high < low:
                    self.fail("a range of characters ends before it begins")
            ranges.append(f"{_code(low)}-{_code(high)}")
        return f"/[{sign}{''.join(ranges)}]/" if ranges else '""'

    def group(self) -> str:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} groups stand within each other")
        self.at += 1
        self.space(lines=True)
        body = self.alternatives(nested=True)
        if not self.take(")"):
            self.fail("')' is missing")
        self.depth -= 1
        return f"({body})"

    def token(self) -> str:
        if self.take("!"):
            self.fail("'!' before a token cannot be had; list what may stand there instead")
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            self.fail("a token is written <[id]> or <text>")
        found = int(match[1]) if match[1] else self.token_id(match[0])
        if found is None:
            self.fail(f"{match[0]} is not one token of this model")
        self.at = match.end()
        self.has_tokens = True
        return f"<[{found}]>"

    def char(self) -> int:
        """The code point at this place, escapes resolved."""
        if self.at >= len(self.text):
            self.fail("a quote or bracket is not closed")
        if self.text[self.at] != "\\":
            self.at += 1
            return ord(self.text[self.at - 1])
        match = _ESCAPE.match(self.text, self.at)
        if match is None:
            self.fail(f"{self.text[self.at : self.at + 2]!r} is not an escape")
        self.at = match.end()
        digits = match[1] or match[2] or match[3]
        return int(digits, 16) if digits else ord(_LETTERS.get(match[4], match[4]))


def _code(point: int) -> str:
    return f"\\x{{{_scalar(point, up=True):x}}}"


def _scalar(point: int, up: bool) -> int:
    """The nearest code point that text can hold."""
    low, high = _SURROGATES
    if low <= point <= high:
        return high + 1 if up else low - 1
    return min(point, _LAST)
