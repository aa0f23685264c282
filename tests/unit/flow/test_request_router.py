"""Which requests the reactor handles itself, and what happens to the others, over real sockets."""

from __future__ import annotations

import pytest
from support.shard import REQUEST, Shard, request

from rmq.codes import ResponseCode
from rmq.format.remoting import JSON, ROCKETMQ

# Without fields and body each of these is refused by its handler, which says what is missing.
HANDLED = (10, 310, 320, 11, 361, 36, 37, 370)
POPS = (200050, 200051, 200052, 200053, 200054, 200055, 200151)
# A heartbeat, a code that nobody knows, and two that stand for pops in binary headers only.
CONTROLS = (34, 31999, 3442, 3543)
MISSING = 1


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
def test_what_has_a_handler_is_answered_without_control(shard: Shard, kind: int) -> None:
    shard.core.set_delay_levels([1000], [0])  # as after the start of the broker
    client = shard.connect()
    for code in (*HANDLED, *POPS):
        wire_code = code & 0xFFFF if kind == ROCKETMQ else code
        assert client.ask(request(wire_code, kind=kind)).code == MISSING, code
    assert shard.kept(REQUEST) == []


def test_what_has_none_goes_to_control_as_it_came(shard: Shard) -> None:
    shard.core.set_delay_levels([1000], [0])
    client = shard.connect()
    for code in CONTROLS:
        frame = request(code, body=b"body")
        client.put(frame)
        ((_, handed),) = shard.reports(REQUEST)
        assert handed == frame[4:]


def test_what_has_none_is_refused_where_control_gives_it_back(shard: Shard) -> None:
    """If it were handed over again and again, it would go round for ever."""
    shard.core.set_delay_levels([1000], [0])
    client = shard.connect()
    for code in CONTROLS:
        client.put(request(code, opaque=code))
        ((number, handed),) = shard.reports(REQUEST)
        shard.core.resubmit(number, handed)
        reply = client.reply()
        assert (reply.opaque, reply.code) == (code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        assert reply.remark == f" request type {code} not supported"
    assert shard.kept(REQUEST) == []


def test_pops_are_controls_until_the_broker_has_started(shard: Shard) -> None:
    client = shard.connect()
    for code in POPS:
        client.put(request(code))
        ((number, handed),) = shard.reports(REQUEST)
        shard.core.resubmit(number, handed)
        assert client.reply().code == MISSING, code
    assert shard.kept(REQUEST) == []
