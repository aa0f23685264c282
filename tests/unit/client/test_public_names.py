"""What help() shows of the client's classes is what the guide names, and each of it has a text.

Goal: names for the client's own parts are no interface. Method: the table in docs/python-client.md
is compared with the names of each class, and of an object of it, because attributes count, too. Not
shown here: what the methods do.
"""

from __future__ import annotations

import inspect
import pydoc
import re
from typing import Any

import pytest
from support.pages import DOCS

import rmq
import rmq.aio

SECTION = "What each class has"
LIFE = {"start", "close"}
PRODUCERS_AND_CONSUMERS = {"client_id", "group", "is_open", "parameters"}


class Payments(rmq.TransactionListener):
    pass


def table() -> dict[str, set[str]]:
    """The names of methods by class, together with those that the section lists for all classes."""
    text = (DOCS / "python-client.md").read_text().partition(f"\n## {SECTION}\n")[2]
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", text.partition("\n## ")[0], re.MULTILINE)
    return {name: set(re.findall(r"`([a-z_]+)`", cell)) for name, cell in rows}


TABLE = table()


def class_of(name: str) -> Any:
    space, _, short = name.rpartition(".")
    return getattr(rmq.aio if space else rmq, short)


def made(name: str) -> Any:
    if name == "Admin":
        return rmq.Admin()
    listener = [Payments()] if name.endswith("TransactionProducer") else []
    return class_of(name)("g", *listener)


def common(name: str) -> set[str]:
    if name == "Admin":
        return LIFE | {"parameters"}
    return LIFE | ({"client_id"} if name.startswith("aio.") else PRODUCERS_AND_CONSUMERS)


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_the_table_has_every_class_of_the_client() -> None:
    own = {name for name in rmq.__all__ if re.search("(Producer|Consumer|Admin)$", name)}
    assert set(TABLE) == own | {f"aio.{name}" for name in rmq.aio.__all__}


@pytest.mark.parametrize("name", TABLE)
def test_a_class_has_the_names_of_the_guide_and_no_others(name: str) -> None:
    wanted = TABLE[name] | common(name)
    assert public(made(name)) == wanted
    assert public(class_of(name)) == wanted - ({"parameters"} if name == "Admin" else set())


@pytest.mark.parametrize("name", TABLE)
def test_help_shows_them_with_what_they_do(name: str) -> None:
    shown = pydoc.plain(pydoc.render_doc(class_of(name)))
    for each in sorted(public(class_of(name))):
        attribute = inspect.getattr_static(class_of(name), each)
        assert inspect.getdoc(attribute), f"{name}.{each} says nothing"
        assert re.search(rf"^ \|  (async )?{each}\b", shown, re.MULTILINE), each


def test_a_send_async_of_a_subclass_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subclass's own send_async must be called. Otherwise a producer has its inner client's
    send_async, which saves a call for each message."""

    class Counting(rmq.Producer):
        def send_async(self, *args: Any, **options: Any) -> Any:
            return "counted"

    message = rmq.Message("t", b"")
    assert Counting("g").send_async(message) == "counted"
    plain = rmq.Producer("g")
    assert plain.send_async == plain._client.send_async
    monkeypatch.setattr(rmq.Producer, "send_async", Counting.send_async)
    assert rmq.Producer("g").send_async(message) == "counted"
