"""The core seam is defined in rmq/broker/core_seam.py, and all that repeats it must agree with it.

A call has one name, the same parameters in the same order with the same defaults, and the same
types in the Protocols, in the stubs of the compiled core, in the compiled core and in the fake core
of the tests. Only the Protocols say what a call promises.
"""

import ast
import inspect
import re
from collections.abc import Iterator

import pytest
from support.fake_core import FakeCore
from support.source_tree import ROOT

from cext.flow.shard_core import ShardCore
from rmq.broker import core_seam
from rmq.broker.replication import ha_client

Signatures = dict[str, str]
ENUM = re.compile(r"^    (\w+) = (\d+)", re.MULTILINE)
HA_FAILURE = re.compile(r"^    (HA_\w+) = (\d+)", re.MULTILINE)

STUBS = ("cext/flow/shard_calls.pyi", "cext/flow/shard_core.pyi")
# Members of ShardCore that are no calls of the seam.
LIFE = {"__init__", "open", "start", "stop", "report", "port", "fast_port"}


def protocols() -> dict[str, type]:
    return {
        name: each
        for name, each in vars(core_seam).items()
        if isinstance(each, type) and each.__module__ == core_seam.__name__
    }


def calls_of(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


def calls() -> Iterator[tuple[str, type]]:
    for protocol in protocols().values():
        for name in calls_of(protocol):
            yield name, protocol


CALLS = dict(calls())
METHODS = [name for name, each in CALLS.items() if not isinstance(vars(each)[name], property)]
PROPERTIES = [name for name in CALLS if name not in METHODS]
NOT_THE_BROKERS = calls_of(core_seam.ReplicaCalls)


def signatures(text: str) -> Signatures:
    """{method: its signature, as text} of the classes in the text."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
            assert node.returns is not None, node.name
            found[node.name] = (
                f"{'property ' if is_property else ''}"
                f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}"
            )
    return found


@pytest.fixture(scope="module")
def said() -> Signatures:
    return signatures((ROOT / "rmq/broker/core_seam.py").read_text())


def test_a_call_is_said_once() -> None:
    names = [name for protocol in protocols().values() for name in calls_of(protocol)]
    assert sorted(names) == sorted(set(names))
    assert set(names) >= {"put_topic", "append", "stats"}


def test_core_is_all_of_the_brokers_calls() -> None:
    of_core = {name for each in core_seam.Core.__mro__[:-3] for name in calls_of(each)}
    assert of_core == set(CALLS) - set(NOT_THE_BROKERS)


def test_the_stubs_say_the_same(said: Signatures) -> None:
    stubs: Signatures = {}
    for path in STUBS:
        stubs |= signatures((ROOT / path).read_text())
    in_stubs = {name: text for name, text in stubs.items() if name not in LIFE}
    assert in_stubs == {name: text for name, text in said.items() if name not in LIFE}


def test_the_fake_is_called_in_the_same_way() -> None:
    for name in METHODS:
        if name in NOT_THE_BROKERS:
            assert not hasattr(FakeCore, name), name
        else:
            assert inspect.signature(getattr(FakeCore, name)) == signature_of(name), name


def test_the_fake_has_the_properties() -> None:
    core = FakeCore()
    for name in set(PROPERTIES) - set(NOT_THE_BROKERS):
        assert isinstance(getattr(core, name), int), name


def test_the_compiled_core_is_called_in_the_same_way() -> None:
    for name in METHODS:
        wanted = signature_of(name).parameters.values()
        compiled = inspect.signature(getattr(ShardCore, name))
        bare = [each.replace(annotation=inspect.Parameter.empty) for each in wanted]
        assert list(compiled.parameters.values()) == bare, name


def test_the_compiled_core_takes_the_types_that_are_said() -> None:
    """Compares the parameters that have a C type. Others are any object to Cython, and the method
    itself checks them."""
    for name in METHODS:
        types = c_types(name)
        for parameter in signature_of(name).parameters.values():
            compiled = types[parameter.name]
            if compiled is not None and parameter.name != "self":
                annotation = parameter.annotation
                assert getattr(annotation, "__origin__", annotation).__name__ == compiled, name


def test_the_compiled_core_has_the_properties() -> None:
    assert PROPERTIES
    for name in PROPERTIES:
        assert inspect.isdatadescriptor(getattr(ShardCore, name)), name


def test_what_a_call_promises_is_said_in_the_protocols_alone() -> None:
    """The docstring of a compiled method is only its signature, which cannot contradict them."""
    for name in METHODS:
        text = inspect.getdoc(getattr(ShardCore, name)) or ""
        promised = text.partition("\n\n")[2]
        assert promised == "", name


def test_why_a_stream_ended_has_the_numbers_of_the_core_and_words_for_people() -> None:
    page = (ROOT / "cext/flow/replication/ha_service.pxd").read_text()
    compiled = {name: int(value) for name, value in HA_FAILURE.findall(page)}
    assert len(compiled) >= 9
    seam = {name: value for name, value in vars(core_seam).items() if name.startswith("HA_")}
    assert seam == compiled
    passing = {core_seam.HA_NO_FAILURE, core_seam.HA_NEW_EPOCH}
    assert set(ha_client.FAILURES) == set(compiled.values()) - passing


def test_what_poll_brings_has_the_numbers_of_the_core() -> None:
    page = (ROOT / "cext/flow/context/control_link.pxd").read_text()
    kinds = page.partition("cdef enum ToControl:\n")[2].partition("\n\n")[0]
    compiled = {name.removesuffix("_CONNECTION"): int(value) for name, value in ENUM.findall(kinds)}
    assert sorted(compiled.values()) == list(range(8))
    assert {name: getattr(core_seam, name) for name in compiled} == compiled


def test_states_of_half_messages_have_the_numbers_of_the_core() -> None:
    page = (ROOT / "cext/flow/control/transaction_calls.pyx").read_text()
    states = page.partition("cdef enum HalfState:")[2].partition("\n\n")[0]
    compiled = {name: int(value) for name, value in ENUM.findall(states)}
    assert len(compiled) == 3
    assert {name: getattr(core_seam, name) for name in compiled} == compiled


def signature_of(name: str) -> inspect.Signature:
    return inspect.signature(vars(CALLS[name])[name])


def c_types(name: str) -> dict[str, str | None]:
    """Python's name for the C type of each parameter; None: any object. Read from the signature
    that Cython embeds: "ShardCalls.f(self, bytes name, int32_t queues=0)"."""
    first = (getattr(ShardCore, name).__doc__ or "").partition("\n")[0]
    inside = first[first.index("(") + 1 : first.rindex(")")]
    found: dict[str, str | None] = {}
    for each in inside.split(", "):
        typed = re.fullmatch(r"(?:(\w+) )?(\w+)(?: not None)?(?:=.*)?", each)
        assert typed is not None, first
        c_type = typed[1]
        found[typed[2]] = "int" if c_type and re.fullmatch(r"u?int\d+_t|int", c_type) else c_type
    return found


def test_a_difference_is_seen() -> None:
    one = signatures("class A:\n    def f(self, a: int, b: bytes = b'') -> int: ...\n")
    other = signatures("class A:\n    def f(self, a: int, c: bytes = b'') -> int: ...\n")
    default = signatures("class A:\n    def f(self, a: int, b: bytes = b'x') -> int: ...\n")
    prop = signatures("class A:\n    @property\n    def f(self) -> int: ...\n")
    texts = {each["f"] for each in (one, other, default, prop)}
    assert len(texts) == 4
    assert c_types("put_topic") == {
        "self": None, "name": "bytes", "read_queues": "int", "write_queues": "int", "perm": "int",
        "order": "int",
    }  # fmt: skip
