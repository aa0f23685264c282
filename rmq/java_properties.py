r"""Java properties: reads and writes them, the form of broker.conf and of update requests.

    # comment, ! comment            blank lines and leading blanks do not count
    key=value   key:value   key value
    long = one, \                   a line that ends in an odd number of backslashes goes on
           two                      on the next, whose leading blanks are dropped
    \t \n \r \f \\ \= \: \# \u4e2d  escapes; before any other character the backslash is dropped

Trailing blanks belong to the value, as in Java (the settings strip them). If a key is given twice,
the later line counts. Example: `parse("a\\:b = c\n")` gives `{"a:b": "c"}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rmq.errors import ConfigError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def parse(text: str, source: str = "properties") -> dict[str, str]:
    """The values of all logical lines, by key; `source` names the text in errors."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        where = f"{source}, line {number}"
        end = _key_end(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        found[_unescape(line[:end], where)] = _unescape(rest, where)
    return found


def format(pairs: Iterable[tuple[str, str]]) -> str:
    """The text that `parse` and java.util.Properties read back as these pairs."""
    return "".join(f"{_escape_key(key)}={_escape_value(value)}\n" for key, value in pairs)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The logical lines, each with the number of its first line; without comments and blank
    lines."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    gathered, first, continuing = "", 0, False
    for number, raw in enumerate(lines, 1):
        line = raw.lstrip(_BLANKS)
        if not continuing:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        continuing = backslashes % 2 == 1
        gathered += line[:-1] if continuing else line
        if not continuing:
            yield first, gathered
            gathered = ""
    if gathered:
        yield first, gathered


def _key_end(line: str) -> int:
    """The index of the first blank, '=' or ':' that is not escaped by a backslash."""
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    return min(at, len(line))


def _unescape(text: str, where: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character != "\\" or at == len(text):
            out.append(character if character != "\\" else "")
            continue
        escape = text[at]
        at += 1
        if escape != "u":
            out.append(_ESCAPES.get(escape, escape))
            continue
        digits = text[at : at + 4]
        if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            raise ConfigError(f"{where}: \\u{digits} is not \\u and four hexadecimal digits")
        out.append(chr(int(digits, 16)))
        at += 4
    # Characters beyond the basic plane are written as two escapes, a surrogate pair.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape_value(text: str) -> str:
    escaped = "".join(_ESCAPED.get(character, character) for character in text)
    return "\\" + escaped if escaped[:1] == " " else escaped


def _escape_key(text: str) -> str:
    escaped = "".join(_ESCAPED.get(character, character) for character in text)
    return "".join("\\" + each if each in " =:#!" else each for each in escaped)
