"""Forms: the fields of a page's form, and why a value is not accepted.

    fields = (Field("topic", "Topic", parse=topic_name), Field("queues", "Queues", parse=whole(1)))
    form = read(fields, {"topic": ["a/b"], "queues": ["4"]})
    form.values, form.faults            {"queues": 4}, {"topic": "the topic 'a/b' holds .."}

A parser takes the text of a field and returns its value. Its ValueError says what is wanted, and
the page shows that beside the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from rmq.client.blocking.tail import Start
from rmq.names import group_fault, topic_fault
from rmq.operations.starts import parse_start

Parser = Callable[[str], Any]
TEXT_MAX = 4096
DIGITS_MAX = 20
LONG_KINDS = ("textarea", "hidden")


def text(value: str) -> str:
    if not value.isprintable():
        raise ValueError("a text on one line, without control characters")
    return value


def long_text(value: str) -> str:
    """A text of several lines; a form sends each line's end as CR LF."""
    return value.replace("\r\n", "\n")


def whole(low: int, high: int) -> Parser:
    def parse(value: str) -> int:
        is_number = value.isascii() and value.isdigit() and len(value) < DIGITS_MAX
        if not is_number or not low <= int(value) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(value)

    return parse


def chosen(*names: str) -> Parser:
    def parse(value: str) -> str:
        if value not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return value

    return parse


def flag(value: str) -> bool:
    return value == "yes"


def topic_name(value: str) -> str:
    if (fault := topic_fault(value)) is not None:
        raise ValueError(fault)
    return value


def group_name(value: str) -> str:
    if (fault := group_fault(value)) is not None:
        raise ValueError(fault)
    return value


def place(value: str) -> Start:
    """The place in each queue where to begin, or where a group goes on."""
    found = parse_start(value)
    if found.end is not None or found.until_ms is not None:
        raise ValueError("one place, not from N to M or from @TIME to @TIME")
    return found


def pairs(value: str) -> dict[str, str]:
    """The pairs of lines of the form name=value."""
    found = {}
    for number, line in enumerate(long_text(value).splitlines(), 1):
        name, equals, said = line.partition("=")
        if line.strip() and (not equals or not name.strip()):
            raise ValueError(f"line {number}: name=value")
        if line.strip():
            found[name.strip()] = said
    return found


class Field(msgspec.Struct, frozen=True):
    """One question of a form. `kind`: text, number, select, checkbox, textarea, password, or hidden
    for a parameter that the page was opened with. A field with several values gives a list."""

    name: str
    label: str = ""
    parse: Parser = text
    kind: str = "text"
    help: str = ""
    default: str = ""
    choices: tuple[tuple[str, str], ...] = ()  # of a select: value, what is shown
    is_required: bool = True
    is_list: bool = False

    @property
    def has_length_limit(self) -> bool:
        return self.kind not in LONG_KINDS


class Form(msgspec.Struct):
    """A form as it was filled in."""

    texts: dict[str, str]
    values: dict[str, Any]
    faults: dict[str, str]
    lists: dict[str, list[str]] = {}  # the texts of fields with several values


def read(fields: Sequence[Field], given: Mapping[str, Sequence[str]]) -> Form:
    """Reads what the browser sent. A field that is not required and left empty has the value
    None."""
    form = Form({}, {}, {})
    for field in fields:
        said = list(given.get(field.name, ()))
        value = said[-1] if said else ""
        if field.parse not in (long_text, pairs) and field.kind != "password":
            value = value.strip()
        form.texts[field.name] = value
        if field.is_list:
            form.lists[field.name] = said
        try:
            form.values[field.name] = _value(field, said, value)
        except ValueError as error:
            form.faults[field.name] = str(error)
    return form


def _value(field: Field, said: list[str], value: str) -> Any:
    if field.is_list:
        if field.is_required and not said:
            raise ValueError("choose one at least")
        return [field.parse(each) for each in said]
    if not value and field.kind != "checkbox":
        if field.is_required:
            raise ValueError("it is needed")
        return None
    if field.has_length_limit and len(value) > TEXT_MAX:
        raise ValueError(f"at most {TEXT_MAX} characters")
    return field.parse(value)


def filled(fields: Sequence[Field], given: Mapping[str, Sequence[str]]) -> Form:
    """A form as it is shown at first, with the given values, else with defaults."""
    texts = {each.name: [*given.get(each.name, (each.default,)), ""][0] for each in fields}
    lists = {each.name: list(given.get(each.name, ())) for each in fields if each.is_list}
    return Form(texts, {}, {}, lists)
