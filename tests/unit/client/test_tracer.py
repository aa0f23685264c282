"""Traces that cannot be sent hold up nothing but themselves."""

from __future__ import annotations

import threading

from support.scripted_cluster import silent
from support.scripted_peer import ScriptedPeer
from support.waiting import wait_until

from rmq import Message, Producer
from rmq.codes import RequestCode as Code


def test_a_silent_name_server_holds_one_thread_whatever_number_of_records_comes() -> None:
    with (
        ScriptedPeer({Code.GET_ROUTEINFO_BY_TOPIC: silent}) as names,
        Producer("g", namesrv_addr=names.address, enable_trace=True) as producer,
    ):
        tracer, ran = producer._client.hooked.tracer, threading.Event()
        assert tracer is not None
        for _ in range(20_000):
            tracer.sent("g", Message("t", b"x"), "127.0.0.1:1", 1.0, "", True)
        wait_until(lambda: names.requests)
        # Runs after everything that is due.
        producer._client.instance.timers.after(0, ran.set, chore=True)
        wait_until(lambda: ran.is_set() or len(names.requests) > 1)
        assert len(names.requests) == 1
        names.__exit__()  # so that the close need not wait for an answer
