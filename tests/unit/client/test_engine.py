"""The client's engine against scripted peers: every request ends exactly once, and its end says
how."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.driven_clock import DrivenClock
from support.scripted_peer import ScriptedPeer
from support.waiting import HANG_S, wait_until

from cext.client.engine import Engine
from cext.client.mailbox import Mailbox
from cext.client.reply import Reply, reply_of
from cext.client.request import encode_answer, encode_request
from rmq.demo.ports import free_port
from rmq.errors import (
    BusyError,
    ClosedError,
    ProtocolError,
    RemoteError,
    RequestTimeoutError,
    UnreachableError,
)
from rmq.format import remoting
from rmq.format.remoting import Command

pytestmark = pytest.mark.still_clock

SLOTS = 1 << 14
ECHO = {30: lambda request: request.reply(0, None, request.fields, request.body)}


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    engine.start()
    yield engine
    engine.stop()


def link_to(engine: Engine, peer: ScriptedPeer) -> int:
    host, _, port = peer.address.rpartition(":")
    return engine.link(host, int(port))


def child_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def test_one_that_nobody_has_ends_its_thread_and_gives_back_all() -> None:
    """An engine that nobody refers to must end its thread and free everything. It and its notices
    refer to each other, so the garbage collector must find them."""

    def has() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    gc.collect()
    before = has()
    engines = [Engine() for _ in range(5)]
    for each in engines:
        each.start()
    assert has() > before
    gone = [weakref.ref(each) for each in engines]
    del engines, each
    gc.collect()
    assert [each() for each in gone] == [None] * 5
    wait_until(lambda: all(now <= then for now, then in zip(has(), before, strict=True)))


@pytest.mark.parametrize("code", [30, 200050])
def test_fields_and_body_arrive_as_they_were_given(engine: Engine, code: int) -> None:
    fields = {"topic": 'a\u00e4\u4e2d"\\', "n": 7, "yes": True, "none": None}
    with ScriptedPeer({code: lambda request: request.reply(0, "ok", request.fields, b"\0" * 99)}) \
            as peer:  # fmt: skip
        reply = engine.call(link_to(engine, peer), encode_request(code, fields, b"body"), 60_000)
        assert peer.requests[0].body == b"body"
        assert peer.requests[0].language == "PYTHON"
        assert peer.requests[0].serialize_type == (1 if code == 30 else 0)
    assert reply.fields == {"topic": 'a\u00e4\u4e2d"\\', "n": "7", "yes": "true"}
    assert (reply.code, reply.remark, reply.body) == (0, "ok", b"\0" * 99)


def test_answers_in_any_order_reach_their_requests(engine: Engine) -> None:
    held: list[Command] = []

    def answer(request: Command) -> bytes | None:
        held.append(request)
        if len(held) < 50:
            return None
        return b"".join(remoting.encode(each.reply(0, each.fields["i"])) for each in held[::-1])

    with ScriptedPeer({30: answer}) as peer:
        mailbox, link, got = Mailbox(engine), link_to(engine, peer), {}
        for i in range(50):

            def done(reply: Reply | None, error: Exception | None, i: int = i) -> None:
                got[i] = reply.remark if reply else error

            engine.submit(link, encode_request(30, {"i": i}), 60_000, mailbox, done)
        while len(got) < 50:
            assert mailbox.deliver(60_000)
    assert got == {i: str(i) for i in range(50)}


def test_bodies_of_all_sizes_come_whole(engine: Engine) -> None:
    with ScriptedPeer(ECHO) as peer:
        link = link_to(engine, peer)
        for size in (0, 1, 65_000, 65_536, 262_144, 300_000, 5_000_000):
            body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
            assert engine.call(link, encode_request(30, {}, body), 60_000).body == body


def test_silence_ends_in_time_and_a_late_answer_reaches_nobody(
    clock: DrivenClock, engine: Engine
) -> None:
    given_up = threading.Event()

    def answer(request: Command) -> Command:
        if request.fields["wait"] == "true":
            clock.advance(1)
            given_up.wait(HANG_S)
        return request.reply(0, request.fields["wait"])

    with ScriptedPeer({30: answer}) as peer:
        link = link_to(engine, peer)
        with pytest.raises(RequestTimeoutError, match=f"{peer.address}: no answer within 1 s"):
            engine.call(link, encode_request(30, {"wait": True}), 1000)
        given_up.set()
        assert engine.call(link, encode_request(30, {"wait": False}), 60_000).remark == "false"
        assert engine.stats()["stale_answers"] == 1
        assert engine.stats()["in_flight"] == 0


def test_refused_lost_and_foreign_connections_say_so_and_are_made_anew(engine: Engine) -> None:
    port = free_port()
    link = engine.link("127.0.0.1", port)
    with pytest.raises(UnreachableError, match="cannot connect"):
        engine.call(link, encode_request(30), 60_000)
    with ScriptedPeer(ECHO | {31: lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9}) as peer:
        link = link_to(engine, peer)
        with pytest.raises(UnreachableError, match="not RocketMQ's protocol"):
            engine.call(link, encode_request(31), 60_000)
        assert engine.call(link, encode_request(30), 60_000).code == 0
    with pytest.raises(UnreachableError):
        engine.call(link, encode_request(30), 60_000)


def test_requests_of_the_peer_come_as_notices_and_can_be_answered(engine: Engine) -> None:
    answers: list[Command] = []
    asked = threading.Event()

    def ask_back(request: Command) -> bytes:
        question = Command(code=39, opaque=77, fields={"topic": "t"}, body=b"half")
        return remoting.encode(question) + remoting.encode(request.reply())

    def on_notice(link: int, request: Reply | None, error: int) -> None:
        if request is not None:
            assert (request.code, request.fields, request.body) == (39, {"topic": "t"}, b"half")
            engine.post(link, encode_answer(request, 0, {"a": 1}, b"yes"))
            asked.set()

    engine.notices.on_notice = on_notice
    with ScriptedPeer({30: ask_back, 0: lambda command: answers.append(command)}) as peer:
        engine.call(link_to(engine, peer), encode_request(30), 60_000)
        assert engine.notices.deliver(60_000) == 1
        assert asked.wait(HANG_S)
        wait_until(lambda: answers)
    assert (answers[0].opaque, answers[0].is_response, answers[0].body) == (77, True, b"yes")


def test_more_requests_than_slots_are_refused_in_time_and_none_is_lost(engine: Engine) -> None:
    with ScriptedPeer({30: lambda _: None}) as peer:
        mailbox, link, ends = Mailbox(engine), link_to(engine, peer), []
        frame = encode_request(30)
        for _ in range(SLOTS):
            engine.submit(link, frame, 60_000, mailbox, lambda *end: ends.append(end))
        with pytest.raises(BusyError):
            engine.submit(link, frame, 50, mailbox, lambda *end: ends.append(end))
        engine.stop()
        while mailbox.deliver():
            pass
    assert len(ends) == SLOTS
    assert all(reply is None and isinstance(error, ClosedError) for reply, error in ends)
    with pytest.raises(ClosedError):
        engine.submit(link, frame, 50, mailbox, None)


def test_who_is_told_may_ask_again_though_all_slots_are_in_use(engine: Engine) -> None:
    """A callback must be able to send a new request while all slots are in use, even the first
    callback, before any slot was given back."""
    with ScriptedPeer({30: lambda _: None, 31: ECHO[30]}) as peer:
        mailbox, link, told, problems = Mailbox(engine), link_to(engine, peer), [], []
        mailbox.on_error = problems.append
        silent, answered = encode_request(30), encode_request(31)

        def again(reply: Reply | None, error: Exception | None) -> None:
            told.append(error)
            engine.submit(link, answered, 60_000, mailbox, lambda _, error: told.append(error))

        for i in range(SLOTS):
            if i < SLOTS - 3:
                engine.submit(link, silent, 600_000, mailbox, lambda *_: None)
            else:
                engine.submit(link, answered, 600_000, mailbox, again)
        assert engine.stats()["in_flight"] == SLOTS
        while len(told) < 6 and not problems:
            assert mailbox.deliver(60_000)
        assert (told, problems) == ([None] * 6, [])
        assert engine.stats()["in_flight"] == SLOTS - 3
        engine.stop()
        assert mailbox.deliver() == SLOTS - 3


def fill_slots(engine: Engine, link: int, mailbox: Mailbox) -> None:
    """Sends requests that nobody answers, until all slots are in use."""
    while engine.stats()["in_flight"] < SLOTS:
        engine.submit(link, encode_request(30), 600_000, mailbox, lambda *_: None)


def test_two_threads_that_tell_from_one_mailbox_wait_for_no_slot(engine: Engine) -> None:
    """Two threads that run callbacks of one mailbox, as those of client_callback_executor_threads,
    must not wait for a slot. The first one sends a request while the second one's callback runs;
    the second sends one when the first has given its slots back and they are in use again."""
    with ScriptedPeer({30: lambda _: None, 31: ECHO[30]}) as peer:
        mailbox, link, problems = Mailbox(engine), link_to(engine, peer), []
        mailbox.on_error = problems.append
        events = [threading.Event() for _ in range(3)]
        first_tells, second_tells, slots_are_used = events

        def ask(done: Callable[[Reply | None, Exception | None], object]) -> None:
            engine.submit(link, encode_request(31), 3_000, mailbox, done)

        def first(reply: Reply | None, error: Exception | None) -> None:
            first_tells.set()
            assert second_tells.wait(HANG_S)
            ask(lambda *_: None)

        def second(reply: Reply | None, error: Exception | None) -> None:
            second_tells.set()
            assert slots_are_used.wait(HANG_S)
            ask(lambda *_: None)

        threads = [
            threading.Thread(target=mailbox.deliver, args=(60_000,), daemon=True) for _ in range(2)
        ]
        ask(first)
        threads[0].start()
        assert first_tells.wait(HANG_S)
        ask(second)
        fill_slots(engine, link, mailbox)
        threads[1].start()
        threads[0].join()
        assert problems == []
        fill_slots(engine, link, Mailbox(engine))
        slots_are_used.set()
        threads[1].join()
        assert problems == []


def test_who_is_told_may_wait_for_an_answer_though_all_slots_are_in_use(engine: Engine) -> None:
    with ScriptedPeer({30: lambda _: None, 31: ECHO[30]}) as peer:
        mailbox, link, codes, problems = Mailbox(engine), link_to(engine, peer), [], []
        mailbox.on_error = problems.append

        def call(reply: Reply | None, error: Exception | None) -> None:
            codes.extend(engine.call(link, encode_request(31), 3_000).code for _ in range(3))

        engine.submit(link, encode_request(31), 60_000, mailbox, call)
        fill_slots(engine, link, Mailbox(engine))
        assert mailbox.deliver(60_000) == 1
        assert (codes, problems) == ([0] * 3, [])


def test_who_is_told_is_refused_at_once_beyond_the_slots_of_what_it_was_told(
    engine: Engine,
) -> None:
    with ScriptedPeer({30: lambda _: None, 31: ECHO[30]}) as peer:
        mailbox, link, problems = Mailbox(engine), link_to(engine, peer), []
        mailbox.on_error = problems.append

        def again(reply: Reply | None, error: Exception | None) -> None:
            for _ in range(2):
                engine.submit(link, encode_request(30), 600_000, mailbox, lambda *_: None)

        engine.submit(link, encode_request(31), 60_000, mailbox, again)
        fill_slots(engine, link, Mailbox(engine))
        assert mailbox.deliver(60_000) == 1
        (problem,) = problems
        assert isinstance(problem, BusyError) and "waits for none of them" in str(problem)


def by_threes() -> dict[int, Any]:
    """Answers only each third request, together with the two before, so that their ends come
    together."""
    waiting: list[bytes] = []

    def answer(request: Command) -> bytes | None:
        waiting.append(remoting.encode(request.reply()))
        if len(waiting) < 3:
            return None
        replies = b"".join(waiting)
        waiting.clear()
        return replies

    return {30: answer}


def submit_three(
    engine: Engine, peer: ScriptedPeer, mailbox: Mailbox, second: Callable[[], None]
) -> list[int]:
    """Sends three requests; the callback of the second one calls `second`. Returns the list of
    those whose callback was called."""
    link, told = link_to(engine, peer), []

    def submit(i: int) -> None:
        def done(reply: Reply | None, error: Exception | None) -> None:
            told.append(i)
            if i == 1:
                second()

        engine.submit(link, encode_request(30), 60_000, mailbox, done)

    for i in range(3):
        submit(i)
    return told


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


@pytest.mark.parametrize(
    "error", [KeyError("mine"), SystemExit(3), pytest.fail.Exception("in a callback")]
)
def test_a_callback_that_raises_is_reported_and_the_others_are_told(
    engine: Engine, error: BaseException
) -> None:
    with ScriptedPeer(by_threes()) as peer:
        mailbox, problems = Mailbox(engine), []
        mailbox.on_error = problems.append
        told = submit_three(engine, peer, mailbox, raising(error))
        assert mailbox.deliver(60_000) == 3
    assert told == [0, 1, 2]
    assert problems == [error]
    assert engine.stats()["in_flight"] == 0


def test_what_interrupts_a_thread_that_tells_is_raised_when_all_are_told(engine: Engine) -> None:
    """What interrupts a thread in its callbacks (Ctrl-C, or an error that on_error raises) must be
    raised only after all callbacks were called."""
    with ScriptedPeer(by_threes()) as peer:
        mailbox = Mailbox(engine)
        mailbox.on_error = lambda error: sys.exit(f"because of {error}")
        for error, raised in ((KeyboardInterrupt(), KeyboardInterrupt), (KeyError(1), SystemExit)):
            told = submit_three(engine, peer, mailbox, raising(error))
            with pytest.raises(raised):
                mailbox.deliver(60_000)
            assert told == [0, 1, 2]
    assert engine.stats()["in_flight"] == 0


def test_many_threads_call_over_one_link(engine: Engine) -> None:
    right: list[int] = []

    def calls(number: int) -> None:
        for i in range(50):
            reply = engine.call(link, encode_request(30, {"i": f"{number}.{i}"}), 60_000)
            right.append(reply.fields == {"i": f"{number}.{i}"})

    with ScriptedPeer(ECHO) as peer:
        link = link_to(engine, peer)
        threads = [threading.Thread(target=calls, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert right == [True] * 400


def test_threads_that_want_an_address_at_once_get_the_same_link(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that want an address at the same time must get the same link. With two links the
    client would have two connections: a broker asks on one, and the answer would come on the
    other."""
    found, together = socket.getaddrinfo, threading.Barrier(4)

    def look_up(*arguments: Any, **more: Any) -> Any:
        together.wait(HANG_S)  # so that none has its link yet
        return found(*arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    links: list[int] = []
    threads = [
        threading.Thread(target=lambda: links.append(engine.link("127.0.0.1", 1)))
        for _ in range(4)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert links == [0, 0, 0, 0]
    assert engine.stats()["links"] == 1


def test_of_two_connections_that_are_given_at_once_one_is_closed(engine: Engine) -> None:
    """If two threads find no connection and both make one, the second must be closed at once. It
    would otherwise be used next, when it is dead."""
    with ScriptedPeer(ECHO) as peer:
        link, (host, _, port) = link_to(engine, peer), peer.address.rpartition(":")
        first = socket.create_connection((host, int(port)))
        first.setblocking(False)
        engine.give(link, first.detach())
        assert engine.is_open(link), "nobody makes another one"
        assert engine.call(link, encode_request(30, {}, b"x"), 60_000).body == b"x"
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.setblocking(False)
            engine.give(link, ours.detach())
            assert theirs.recv(1) == b""
        assert engine.call(link, encode_request(30, {}, b"y"), 60_000).body == b"y"


def test_a_reply_reads_like_the_other_codec() -> None:
    command = Command(code=17, flag=1, opaque=9, remark='no "topic"', fields={"n": "1", "x": "y"})
    for kind in (remoting.JSON, remoting.ROCKETMQ):
        command.serialize_type = kind
        reply = reply_of(remoting.encode(command))
        assert (reply.code, reply.opaque, reply.remark, reply.fields) == (
            17, 9, "no \"topic\"", {"n": "1", "x": "y"})  # fmt: skip
        assert reply.int_field("n") == 1
        assert reply.int_field("absent", 5) == 5
        with pytest.raises(ProtocolError, match="field x is 'y', not a number"):
            reply.int_field("x")
        with pytest.raises(ProtocolError, match="field absent is missing"):
            reply.int_field("absent")
        with pytest.raises(RemoteError, match="code 17"):
            reply.check()


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\4", b'\0\0\0\x09\0\0\0\x05{"a"', b"\xff" * 40])
def test_what_is_no_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        reply_of(frame)


def test_requests_are_what_the_other_codec_reads() -> None:
    for code in (10, 200051):
        command = remoting.decode(encode_request(code, {"a": "b", "c": False}, b"x", 2)[4:])
        assert (command.code, command.flag, command.fields, command.body) == (
            code, 2, {"a": "b", "c": "false"}, b"x")  # fmt: skip


def test_damaged_answers_end_their_requests_and_nothing_else(
    clock: DrivenClock, engine: Engine
) -> None:
    """After every damage to an answer, either it is still an answer, or the connection is closed
    and made anew."""
    chance = random.Random(7)

    def damaged(request: Command) -> bytes:
        frame = bytearray(remoting.encode(request.reply(0, "ok", {"a": "b" * 20}, b"body" * 20)))
        for _ in range(chance.randint(1, 3)):
            # Anything but its length.
            frame[chance.randrange(4, len(frame))] = chance.randrange(256)
        return bytes(frame)

    with ScriptedPeer({30: damaged, 31: ECHO[30]}) as peer, clock.passing():
        link = link_to(engine, peer)
        ends = Counter[str]()
        for _ in range(400):
            try:
                reply = engine.call(link, encode_request(30), 900)
                ends["answered"] += 1
                assert len(reply.body) <= 200
            except (UnreachableError, ProtocolError) as error:
                ends[type(error).__name__] += 1
        for _ in range(3):  # the last damaged answer may still be on its way
            with contextlib.suppress(UnreachableError):
                engine.call(link, encode_request(31), 200)
        assert engine.call(link, encode_request(31), 60_000).code == 0
        assert engine.stats()["in_flight"] == 0
    assert sum(ends.values()) == 400
    assert ends["answered"] > 50


def test_a_link_that_is_silent_for_a_whole_request_is_made_anew(
    clock: DrivenClock, engine: Engine
) -> None:
    asked_ms = iter([0, 200, 1_050])

    def silent(_: Command) -> None:
        clock.advance(next(asked_ms) / 1000)

    with ScriptedPeer({30: silent, 31: ECHO[30]}) as peer:
        link = link_to(engine, peer)
        mailbox, ends = Mailbox(engine), []
        engine.submit(link, encode_request(30), 9000, mailbox, lambda *end: ends.append(end))
        with pytest.raises(RequestTimeoutError):
            engine.call(link, encode_request(30), 200)
        assert not mailbox.deliver()  # requests with short timeouts are no proof
        with pytest.raises(RequestTimeoutError):
            engine.call(link, encode_request(30), 1050)
        assert mailbox.deliver(60_000)
        assert isinstance(ends[0][1], UnreachableError)
        assert engine.call(link, encode_request(31), 60_000).code == 0


def test_a_damaged_length_does_not_hold_a_link_for_long(clock: DrivenClock, engine: Engine) -> None:
    """A damaged length must not hold a link for long: what follows arrives, but counts as parts of
    a frame that never ends."""

    def damaged(request: Command) -> bytes:
        frame = bytearray(remoting.encode(request.reply(0, "ok")))
        frame[:4] = (4 << 20).to_bytes(4, "big")
        return bytes(frame)

    with ScriptedPeer({30: damaged, 31: ECHO[30]}) as peer, clock.passing():
        link = link_to(engine, peer)
        began, hangs = clock.monotonic(), time.monotonic() + HANG_S
        with pytest.raises(RequestTimeoutError):
            engine.call(link, encode_request(30), 100)
        answered = False
        while not answered:
            assert time.monotonic() < hangs
            with contextlib.suppress(UnreachableError):
                answered = engine.call(link, encode_request(31), 1_050).code == 0
        assert clock.monotonic() - began > 4, "a frame may take some time"
        assert engine.stats()["in_flight"] == 0


def test_a_slow_line_that_brings_a_long_answer_is_left_alone(
    clock: DrivenClock, engine: Engine
) -> None:
    """While a slow line still brings a long answer, it must not be closed because the requests
    behind that answer are late."""
    body, ended = os.urandom(1 << 20), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener, ScriptedPeer(ECHO) as other:
        beside = link_to(engine, other)

        def serve() -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                (length,) = struct.unpack(">i", peer.recv(4, socket.MSG_WAITALL))
                request = remoting.decode(peer.recv(length, socket.MSG_WAITALL))
                frame = remoting.encode(request.reply(0, "ok", body=body))
                for at in range(0, len(frame), 32 << 10):
                    peer.sendall(frame[at : at + (32 << 10)])
                    # When this call is answered, the engine has seen what arrived on the slow line
                    # before it.
                    engine.call(beside, encode_request(30), 60_000)
                    clock.advance(0.2)
                while not ended.wait(0.005):  # until the last request behind it is late, too
                    clock.advance(0.2)
                while peer.recv(1 << 16):  # closing with unread requests would reset the connection
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        link = engine.link("127.0.0.1", int(listener.getsockname()[1]))
        mailbox, ends = Mailbox(engine), []
        engine.submit(link, encode_request(30), 100_000, mailbox, lambda *end: ends.append(end))
        began = clock.monotonic()
        late = 0
        while not mailbox.deliver():
            with pytest.raises(RequestTimeoutError):
                engine.call(link, encode_request(31), 1_100)
            late += clock.monotonic() - began > 5.5
        ended.set()
        ((reply, error),) = ends
        assert error is None
        assert reply.body == body
        assert late
        engine.stop()
        thread.join()


def test_a_child_that_is_forked_while_a_thread_tells_has_no_teller(engine: Engine) -> None:
    """A child that was forked during a callback must forget the thread that ran it: in the child
    the memory of that thread's stack belongs to new threads, which write to it."""
    with ScriptedPeer(ECHO) as peer:
        mailbox, link = Mailbox(engine), link_to(engine, peer)
        told, go_on = threading.Event(), threading.Event()

        def wait(reply: Reply | None, error: Exception | None) -> None:
            told.set()
            go_on.wait(HANG_S)

        engine.submit(link, encode_request(30), 60_000, mailbox, wait)
        teller = threading.Thread(target=mailbox.deliver, args=(60_000,))
        teller.start()
        assert told.wait(HANG_S)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for _ in range(4):
                    thread = threading.Thread(target=json.dumps, args=([[[[["x" * 4096]]]]],))
                    thread.start()
                    thread.join()
                engine.call(link, encode_request(30), 1000)
            except ClosedError:
                code = 7
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        go_on.set()
        teller.join()
    assert status == 7


def test_a_forked_child_is_told_that_its_copy_is_closed() -> None:
    script = """
import os, sys
from cext.client.engine import Engine
from cext.client.request import encode_request
from rmq.errors import ClosedError
engine = Engine(); engine.start()
pid = os.fork()
if pid == 0:
    try:
        engine.call(engine.link("127.0.0.1", 9), encode_request(30), 1000)
    except ClosedError:
        os._exit(7)
    os._exit(1)
engine.stop()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=HANG_S, env=child_environment())
    assert done.returncode == 7
