"""xgrammar's EBNF, which SGLang and vLLM take, to GBNF, llama.cpp's notation. Line numbers stay the same.

Both are almost one notation. In EBNF a rule may go over several lines, names may hold ``_`` and ``.``, and
there are more escapes. What GBNF cannot say (lookahead, macros, attributes of a rule) is refused.
https://xgrammar.mlc.ai/docs/tutorials/ebnf_guided_generation
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, NoReturn

from .types import InvalidRequest

_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n]|\#[^\r\n]*)+)
    |(?P<string>"(?:[^"\\\r\n]|\\.)*")
    |(?P<set>\[\^?(?:[^\]\\\r\n]|\\.)*\])
    |(?P<repeat>\{\s*\d+\s*(?:,\s*(?:\d*|-1)\s*)?\})
    |(?P<macro>(?:TagDispatch|Token|ExcludeToken|TokenTagDispatch|Regex)\s*\()
    |(?P<name>[A-Za-z0-9_-](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?)
    |(?P<token><(?:\[\d+\]|[^>\s]*)>)
    |(?P<sign>::=|\(=|[()|*+?.])""",
    re.X,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_LETTERS = {
    "n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "e": "\x1b",
    **{sign: sign for sign in "\"'?\\"},
}  # fmt: skip
_IN_SETS = _LETTERS | {sign: sign for sign in "^$.*+?()[]{}|/-"}


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def to_gbnf(grammar: str) -> str:
    """Return the grammar in GBNF. Raises InvalidRequest that names the line of what GBNF cannot say."""
    tokens = list(_tokens(grammar))
    defined = {at for at in range(len(tokens)) if _defines(tokens, at)}
    rules = _rule_names(tokens, defined)
    names = _gbnf_names(rules)
    out: list[str] = []
    started = False
    for at, token in enumerate(tokens):
        if at in defined:
            if started:
                _close(out)
            started = True
        elif token.kind == "name" and token.text not in rules:
            _fail(token, f"rule {token.text!r} is not defined")
        elif not started and token.kind != "space":
            _fail(token, "a rule name and '::=' are expected here")
        out.append(_written(token, names))
    _close(out)
    return "".join(out)


def _tokens(grammar: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(grammar):
        match = _TOKEN.match(grammar, at)
        if match is None or match.lastgroup is None:
            _fail(_Token("", "", line), f"{grammar[at]!r} has no meaning here")
        token = _Token(match.lastgroup, match[0], line)
        if token.text == "(=":
            _fail(token, "lookahead '(= …)' is not possible")
        if token.kind == "macro":
            _fail(token, f"the macro {token.text}…) is not possible")
        yield token
        at, line = match.end(), line + match[0].count("\n")


def _defines(tokens: list[_Token], at: int) -> bool:
    """Whether the token at ``at`` is the name of a rule that is defined here."""
    following = (token for token in tokens[at + 1 : at + 3] if token.kind != "space")
    return tokens[at].kind == "name" and getattr(next(following, None), "text", "") == "::="


def _rule_names(tokens: list[_Token], defined: set[int]) -> set[str]:
    rules: set[str] = set()
    for at in sorted(defined):
        if tokens[at].text in rules:
            _fail(tokens[at], f"rule {tokens[at].text!r} is defined twice")
        rules.add(tokens[at].text)
    if "root" not in rules:
        raise InvalidRequest("grammar", "there is no rule 'root' to begin with")
    return rules


def _gbnf_names(rules: set[str]) -> Mapping[str, str]:
    """A name of letters, digits and dashes for each rule; no two rules share one."""
    found: dict[str, str] = {}
    taken = set(rules)
    for name in sorted(rules):
        plain = re.sub(r"[_.]", "-", name)
        while plain != name and plain in taken:
            plain += "-"
        taken.add(plain)
        found[name] = plain
    return found


def _written(token: _Token, names: Mapping[str, str]) -> str:
    match token.kind:
        case "name":
            return names[token.text]
        case "string":
            return f'"{_escaped(token, token.text[1:-1], _LETTERS)}"'
        case "set":
            sign = "^" if token.text.startswith("[^") else ""
            return f"[{sign}{_escaped(token, token.text[1 + len(sign) : -1], _IN_SETS)}]"
        case "repeat":
            return token.text.replace("-1", "")
        case _:
            return "::= (" if token.text == "::=" else token.text  # within brackets a rule may go over lines


def _escaped(token: _Token, text: str, letters: Mapping[str, str]) -> str:
    """``text`` with each escape as GBNF writes it."""

    def written(match: re.Match[str]) -> str:
        digits = match[1] or match[2] or match[3]
        if digits is None and match[4] not in letters:
            _fail(token, f"{match[0]!r} is not an escape")
        point = int(digits, 16) if digits else ord(letters[match[4]])
        if point > 0x10FFFF:
            _fail(token, f"{match[0]!r} is no character")
        return f"\\U{point:08X}"

    return _ESCAPE.sub(written, text)


def _close(out: list[str]) -> None:
    """End a rule behind its last token; spaces and comments before the next rule stay outside."""
    at = len(out)
    while at and (not out[at - 1].strip() or out[at - 1].lstrip().startswith("#")):
        at -= 1
    out.insert(at, ")")


def _fail(token: _Token, problem: str) -> NoReturn:
    raise InvalidRequest("grammar", f"line {token.line}: {problem}")
