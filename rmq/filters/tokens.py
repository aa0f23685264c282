"""Tokens: the words of an SQL92 filter expression, as RocketMQ's grammar cuts them.

    cut("price > 5 and kind = 'it''s'")
        name price, sign >, whole 5, word AND, name kind, sign =, text it's

Keywords may be in upper or lower case. Names are case-sensitive; they have ASCII letters, digits, _
and $, and don't begin with a digit. Words are separated by blanks, -- comments (which need an end
of line) and /* */ comments. The longest word that fits is taken: 123abc is the number 123 and the
name abc.
"""

import re

import msgspec

KEYWORDS = frozenset(
    "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split()
)
END, ERROR = "end", "error"

_EXPONENT = "[eE][+-]?[0-9]+"
_PATTERN = re.compile(
    r"(?P<blank>[ \t\n\r\f]+|--[^\n\r]*(?:\r\n|\n|\r)|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)"
    rf"|(?P<decimal>[0-9]+\.[0-9]*(?:{_EXPONENT})?|\.[0-9]+(?:{_EXPONENT})?|[0-9]+{_EXPONENT})"
    r"|(?P<whole>0|[1-9][0-9]*[lL]?)"
    r"|(?P<text>'(?:''|[^'])*')"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<sign><>|<=|>=|[=<>(),+-])"
)


class SqlError(ValueError):
    """What is wrong with an expression, and where: `position` counts characters from 1."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)  # as args: pickle creates it again from them
        self.position = position

    def __str__(self) -> str:
        return f"character {self.position}: {self.args[1]}"


class Token(msgspec.Struct, frozen=True):
    """One word: `kind` is word (a keyword), name, whole, decimal, text, sign, end or
    error."""

    kind: str
    value: str  # keywords in capitals; texts without quotes, doubled quotes undone
    position: int  # of its first character, from 1

    def shown(self) -> str:
        return "the end" if self.kind == END else repr(self.value[:40])


def cut(expression: str) -> list[Token]:
    """All tokens; the last is of kind end. If some text is no token, the tokens end there, and the
    last is of kind error, with the reason as its value."""
    found = []
    at = 0
    while at < len(expression):
        match = _PATTERN.match(expression, at)
        if match is None:
            found.append(Token(ERROR, _no_token(expression, at), at + 1))
            return found
        kind, value = str(match.lastgroup), match.group()
        if kind == "name" and value.upper() in KEYWORDS:
            kind, value = "word", value.upper()
        elif kind == "text":
            value = value[1:-1].replace("''", "'")
        if kind != "blank":
            found.append(Token(kind, value, at + 1))
        at = match.end()
    found.append(Token(END, "", len(expression) + 1))
    return found


def _no_token(expression: str, at: int) -> str:
    if expression[at] == "'":
        return "a string without its closing quote"
    if expression.startswith("/*", at):
        return "a comment without its */"
    return f"{expression[at]!r} is nothing an expression may hold"
