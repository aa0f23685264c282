"""What a child of fork does with its parent's clients: it has none of their threads."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from support.consuming import create
from support.waiting import HANG_S, wait_until

from rmq import Admin, Message, PopConsumer, Producer, PullConsumer
from rmq.pytest_plugin import RunningBroker


def test_a_child_of_fork_closes_its_copy_of_every_client(broker: RunningBroker) -> None:
    """A child must be able to close its copy of every client, even one whose close() would wait for
    threads, or for a lock that a thread of the parent holds."""
    address = broker.namesrv_addr
    create(address, "fork-close")
    with (
        Producer("fork-close", namesrv_addr=address) as producer,
        Admin(namesrv_addr=address) as admin,
        PullConsumer("fork-close", namesrv_addr=address) as pulling,
        PopConsumer("fork-close-pop", namesrv_addr=address) as popping,
    ):
        producer.send(Message("fork-close", b"0"))
        pulling.subscribe("fork-close")
        popping.subscribe("fork-close")
        with held_by_a_thread(pulling._client._rebalancing):
            in_a_child(lambda: [each.close() for each in (producer, admin, pulling, popping)])
        assert producer.send(Message("fork-close", b"1")).is_ok
        assert admin.members("fork-close") is not None


def test_a_copy_may_be_closed_twice_and_also_after_its_parent(broker: RunningBroker) -> None:
    """A child must be able to close its copy twice, also that of a client which the parent has
    closed already: it stays a copy, and what is under way is the parent's."""
    address = broker.namesrv_addr
    create(address, "fork-twice")
    with (
        Producer("fork-twice", namesrv_addr=address) as producer,
        PopConsumer("fork-twice-pop", namesrv_addr=address) as popping,
    ):
        producer.send(Message("fork-twice", b"0"))
        popping.subscribe("fork-twice")
        acks = popping._client._acks
        assert acks is not None
        locks = [producer._client.delayed_retries._lock, producer._client.completions._lock,
                 popping._client._lock, acks._lock]  # fmt: skip

        def closed_twice() -> None:
            for each in (producer, popping, producer, popping):
                each.close()

        with ExitStack() as held:
            for lock in locks:
                held.enter_context(held_by_a_thread(lock))
            in_a_child(closed_twice)
        producer.close()
        popping.close()
        with ExitStack() as held:
            for lock in locks:
                held.enter_context(held_by_a_thread(lock))
            in_a_child(closed_twice)


def in_a_child(function: Callable[[], object]) -> None:
    """Calls the function in a forked child, where it must return."""
    child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        finally:
            os._exit(1)
    try:
        wait_until(lambda: os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT))
    finally:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    assert status == 0


@contextmanager
def held_by_a_thread(lock: Any) -> Iterator[None]:
    has_it, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            has_it.set()
            over.wait(HANG_S)

    thread = threading.Thread(target=hold)
    thread.start()
    has_it.wait(HANG_S)
    try:
        yield
    finally:
        over.set()
        thread.join()
