"""Which replicas are alive, as far as one controller has heard.

Goal: a replica is gone when its last recently used connection is closed, and not when another one
is. Names that anybody may send do not fill the memory. The clock is driven. Over sockets:
test_controller.py.
"""

from __future__ import annotations

import pytest
from support.driven_clock import DrivenClock

from rmq.controller import live_replicas
from rmq.controller.live_replicas import CONNECTIONS_MAX, OF_CONNECTION_MAX, LiveReplica
from rmq.controller.live_replicas import LiveReplicas as Replicas
from rmq.errors import ProtocolError

pytestmark = pytest.mark.still_clock

ONE, TWO = ("c", "broker-a", 1), ("c", "broker-a", 2)
LIVES = LiveReplica("h:1", timeout_ms=3000)


def is_empty(replicas: Replicas) -> bool:
    return not (replicas._heard or replicas._ids or replicas._said)


def test_who_has_several_connections_is_gone_with_the_last(clock: DrivenClock) -> None:
    replicas, way, other = Replicas(), object(), object()
    assert replicas.heard(ONE, LIVES, way)
    assert not replicas.heard(ONE, LIVES, other)
    replicas.heard(TWO, LIVES, other)
    assert replicas.connection_closed(other) == [TWO]
    assert replicas.of_set("c", "broker-a") == {1: LIVES}
    assert replicas.connection_closed(way) == [ONE]
    assert replicas.of_set("c", "broker-a") == {} and is_empty(replicas)


def test_a_connection_that_was_silent_for_long_keeps_nobody_alive(clock: DrivenClock) -> None:
    """A connection that was silent for long must not keep a replica alive: a machine that lost its
    link left it open, and has used another connection since."""
    replicas, lost, way = Replicas(), object(), object()
    replicas.heard(ONE, LIVES, lost)
    clock.advance(2)
    replicas.heard(ONE, LIVES, way)
    clock.advance(2)
    assert replicas.is_alive(ONE) and replicas.expire() == []
    assert replicas.connection_closed(way) == [ONE]
    assert replicas.connection_closed(lost) == [] and is_empty(replicas)


def test_who_resigned_is_heard_of_anew(clock: DrivenClock) -> None:
    replicas, way, other = Replicas(), object(), object()
    for connection in (way, other):
        replicas.heard(ONE, LIVES, connection)
    replicas.forget(ONE)
    assert not replicas.is_alive(ONE) and is_empty(replicas)
    replicas.forget(ONE)
    assert replicas.heard(ONE, LIVES, way)
    clock.advance(4)
    assert replicas.expire() == [ONE] and is_empty(replicas)


def test_names_that_are_made_up_have_little_room(
    clock: DrivenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas, way = Replicas(), object()
    for number in range(OF_CONNECTION_MAX):
        replicas.heard(("c", f"b{number}", 1), LIVES, way)
    with pytest.raises(ProtocolError, match="one connection"):
        replicas.heard(ONE, LIVES, way)
    assert not replicas.heard(("c", "b0", 1), LIVES, way), "who is known is heard of still"
    monkeypatch.setattr(live_replicas, "REPLICAS_MAX", OF_CONNECTION_MAX)
    with pytest.raises(ProtocolError, match="this controller"):
        replicas.heard(ONE, LIVES, object())
    assert len(replicas.connection_closed(way)) == OF_CONNECTION_MAX and is_empty(replicas)


def test_connections_of_one_replica_are_bounded(clock: DrivenClock) -> None:
    replicas = Replicas()
    ways = [object() for _ in range(CONNECTIONS_MAX + 5)]
    for way in ways:
        replicas.heard(ONE, LIVES, way)
        clock.advance(0.001)
    assert list(replicas._said) == ways[5:]
    for way in ways[:-1]:
        assert replicas.connection_closed(way) == []
    assert replicas.connection_closed(ways[-1]) == [ONE]
