"""Forms: each value is checked, and the reason for a refusal stands beside its field."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="rmq[console] is not installed")

from rmq.client.blocking.tail import Start
from rmq.console.forms import (
    TEXT_MAX,
    Field,
    chosen,
    filled,
    flag,
    group_name,
    long_text,
    pairs,
    place,
    read,
    text,
    topic_name,
    whole,
)

FIELDS = (
    Field("topic", "Topic", topic_name),
    Field("queues", "Queues", whole(1, 64), "number", default="8"),
    Field("perm", "Permission", chosen("r", "rw"), "select", default="rw"),
    Field("order", "Ordered", flag, "checkbox", is_required=False),
    Field("from", "From", place, is_required=False),
    Field("id", "Ids", text, "hidden", is_required=False, is_list=True),
)


def test_what_is_right_becomes_values() -> None:
    form = read(FIELDS, {"topic": [" orders "], "queues": ["4"], "perm": ["r"], "order": ["yes"],
                         "from": ["-10"], "id": ["a", "b"], "other": ["x"]})  # fmt: skip
    assert form.faults == {}
    assert form.values == {"topic": "orders", "queues": 4, "perm": "r", "order": True,
                           "from": Start("back", 10), "id": ["a", "b"]}  # fmt: skip


def test_what_is_left_empty_is_none_unless_it_is_needed() -> None:
    form = read(FIELDS, {})
    assert form.faults == {"topic": "it is needed", "queues": "it is needed",
                           "perm": "it is needed"}  # fmt: skip
    assert form.values == {"order": False, "from": None, "id": []}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("topic", "a/b", "characters outside"),
        ("topic", "<script>", "characters outside"),
        ("topic", "t" * 128, "at most 127"),
        ("queues", "0", "a whole number from 1 to 64"),
        ("queues", "65", "a whole number from 1 to 64"),
        ("queues", "-1", "a whole number from 1 to 64"),
        ("queues", "4.0", "a whole number from 1 to 64"),
        ("queues", "٤", "a whole number from 1 to 64"),
        ("queues", "9" * 400, "a whole number from 1 to 64"),
        ("perm", "x", "one of r, rw"),
        ("from", "1:5", "one place, not from N to M"),
        ("from", "@-2h:@-1h", "one place, not from N to M or from @TIME to @TIME"),
        ("from", "soon", "first (start), last (end), an offset"),
        ("topic", "t" * (TEXT_MAX + 1), f"at most {TEXT_MAX} characters"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_stays_in_it(
    name: str, value: str, reason: str
) -> None:
    right = {"topic": ["t"], "queues": ["4"], "perm": ["rw"]}
    form = read(FIELDS, {**right, name: [value]})
    assert list(form.faults) == [name]
    assert reason in form.faults[name]
    assert form.texts[name] == value


@pytest.mark.parametrize("value", ["a\nb", "a\x00", "\x1b[2J", "\u202egnp"])
def test_a_text_on_one_line_holds_no_control_characters(value: str) -> None:
    with pytest.raises(ValueError, match="without control characters"):
        text(value)


def test_long_texts_have_the_line_ends_that_were_typed() -> None:
    assert long_text("a\r\nb\r\n") == "a\nb\n"


def test_pairs_are_lines_of_name_and_value() -> None:
    assert pairs("a=1\r\n\r\nb=x=y\r\n") == {"a": "1", "b": "x=y"}
    for bad in ("a", "=1", "a=1\nb"):
        with pytest.raises(ValueError, match="name=value"):
            pairs(bad)


def test_a_list_that_is_needed_has_one_at_least() -> None:
    fields = (Field("actions", "Actions", chosen("Pub", "Sub"), "choices", is_list=True),)
    assert read(fields, {}).faults == {"actions": "choose one at least"}
    assert read(fields, {"actions": ["Pub", "Drop"]}).faults == {"actions": "one of Pub, Sub"}


def test_a_form_that_is_shown_first_has_what_is_known_and_defaults() -> None:
    form = filled(FIELDS, {"topic": ["orders"], "id": ["a", "b"], "queues": []})
    assert form.texts["topic"] == "orders"
    assert form.texts["perm"] == "rw"
    assert form.lists["id"] == ["a", "b"]
    assert form.faults == {}


def test_a_group_has_a_legal_name() -> None:
    with pytest.raises(ValueError, match="characters outside"):
        group_name("a b")
