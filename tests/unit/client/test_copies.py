"""Every object that Python code can get hold of is either copied right, or says that it cannot be
copied and what to do.

By default Cython lets a compiled class be pickled by copying pointers of C as if they were text. So
every class of every compiled module, every public name and every error stands in a table here, and
the test fails for a new one that stands in none.
"""

from __future__ import annotations

import copy
import enum
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import click
import pytest
from support.certificates import Authority
from support.shard import Shard

import cext
import pyspark_rmq
import rmq
import rmq.aio
import shards
from cext.arrow.columns import Columns
from cext.arrow.decoder import Decoder
from cext.arrow.log_reader import LogReader
from cext.arrow.puller import Puller
from cext.client.engine import Engine
from cext.client.mailbox import Completion, EngineBase, Mailbox, Waiter
from cext.client.message import Message, MessageExt, decode_messages
from cext.client.reply import Reply, reply_of
from cext.client.result import SendResult, send_result
from cext.client.sender import Sender
from cext.client.sends import SendCompletion, Sends, SendWaiter
from cext.client.target import Target, TopicQueues
from cext.flow.shard_core import ShardCore
from cext.load.histogram import Histogram
from cext.load.signer import Signer
from cext.load.template import FrameSet
from cext.net.tls import TlsContext
from cext.net.tls_stream import TlsClientContext, TlsStream
from cext.store.log.commit_log import CommitLog
from cext.store.truncation import Truncation
from cext.testing.message_probe import Program
from rmq.errors import RemoteError, RmqError
from rmq.filters.sql92 import compile_expression
from rmq.format.fastjson import MessageQueue
from rmq.format.message import Host, StoredMessage, encode_message, encode_properties
from rmq.format.remoting import Command, encode
from rmq.pytest_plugin import RunningBroker

Way = Callable[[Any], Any]
PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


def pickled(protocol: int) -> Way:
    return lambda thing: pickle.loads(pickle.dumps(thing, protocol))


WAYS: dict[str, Way] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {protocol}": pickled(protocol) for protocol in PROTOCOLS},
}


def record(body: bytes, host: str = "10.1.2.3") -> bytes:
    return encode_message(
        StoredMessage(
            topic="orders", queue_id=3, queue_offset=41, physical_offset=12_345, flag=7, body=body,
            born_timestamp_ms=1_700_000_000_000, born_host=Host(host, 4321), reconsume_times=2,
            store_timestamp_ms=1_700_000_000_123, store_host=Host(host, 10911), prepared_offset=8,
            properties_bytes=encode_properties({"TAGS": "a", "KEYS": "k1 k2", "own": "ü"}),
            sys_flag=0x30 if ":" in host else 0,
        )
    )  # fmt: skip


def reply_with(body: bytes, **fields: str) -> Reply:
    command = Command(code=0, flag=1, opaque=77, fields=fields, remark="all well", body=body)
    return reply_of(encode(command))


def received() -> list[MessageExt]:
    """Messages as a pull returns them: all in one answer, the last one from an IPv6 host."""
    bodies = [b"one", b"x" * 70_000, b""]
    records = [record(body) for body in bodies] + [record(b"six", "2001:db8::7")]
    return decode_messages(reply_with(b"".join(records)), "broker-a")


def message_sent() -> Message:
    message = Message("orders", b"\0paid\xff", "a", ["k1", "k2"], properties={"own": "ü"}, flag=9,
                      delay_level=3, sharding_key="s", wait_store_msg_ok=False)  # fmt: skip
    message.take_unique("7F00000100002A9F4B8C5D6E7F800001")
    return message


def results() -> list[SendResult]:
    answer = reply_with(
        b"", queueId="3", queueOffset="99", msgId="0A", transactionId="T", recallHandle="H",
        MSG_REGION="R",
    )  # fmt: skip
    return [send_result(answer, "orders", "broker-a", message_sent()),
            send_result(reply_with(b"", queueId="0", queueOffset="1"), "orders", "b")]  # fmt: skip


# ---- when two objects are alike

GETTERS = {
    kind: sorted(
        name for name, value in inspect.getmembers(kind)
        if inspect.isdatadescriptor(value) and not name.startswith("__")
    )
    for kind in (Message, MessageExt, SendResult, Reply)
}  # fmt: skip


def seen(thing: Any) -> Any:
    """Everything that can be read of an object."""
    getters = next((GETTERS[kind] for kind in type(thing).__mro__ if kind in GETTERS), None)
    if getters is not None:
        found: dict[str, Any] = {name: getattr(thing, name) for name in getters}
        return type(thing), repr(thing), found, getattr(thing, "__dict__", None)
    if isinstance(thing, BaseException):
        return type(thing), str(thing), thing.args, vars(thing)
    if isinstance(thing, Program):
        return thing.__reduce__()
    if is_dataclass(thing):
        return type(thing), {field.name: getattr(thing, field.name) for field in fields(thing)}
    return type(thing), thing


# ---- the tables

COPIED: dict[type, Callable[[], list[Any]]] = {
    Message: lambda: [message_sent(), Message("t", b"")],
    MessageExt: received,
    SendResult: results,
    Reply: lambda: [reply_with(b"body", a="1")],
    Program: lambda: [Program(compile_expression("a > 5 AND b IN ('x')").program)],
    MessageQueue: lambda: [MessageQueue("orders", "broker-a", 3)],
    Truncation: lambda: [Truncation(4096, (5, 6), b"note")],
    rmq.TransactionResult: lambda: [
        rmq.TransactionResult(results()[0], rmq.LocalTransactionState.COMMIT)
    ],
}


def log_in(folder: Path) -> CommitLog:
    return CommitLog(str(folder / "commitlog"), 1 << 20)


def frame_set() -> FrameSet:
    return FrameSet([(b"x" * 60, 0, 20, 0, ())], b"body", [])


def target(folder: Path) -> Target:
    sender = Sender()
    sender.connect_sender(Engine(), Mailbox(Engine()))
    return Target(sender, "t", "t", "b", "127.0.0.1:1", 0, 0, {"a": "g", "c": "TBW102", "d": 4,
                                                              "k": "j"})  # fmt: skip


def columns() -> Columns:
    return Columns([])


def tls_context(folder: Path) -> TlsContext:
    pair = Authority(folder).pair("server")
    return TlsContext(str(pair.certificate), str(pair.key), None, None, "none")


REFUSING: dict[str, Callable[[Path], Any]] = {
    "cext.arrow.columns.Columns": lambda _: columns(),
    "cext.arrow.decoder.Decoder": lambda _: Decoder(columns()),
    "cext.arrow.log_reader.LogReader": lambda _: LogReader(
        Decoder(columns()), 0, 0, 1 << 20, 0, 1 << 20, lambda *_: 0
    ),
    "cext.arrow.puller.Puller": lambda _: Puller(
        Decoder(columns()), 0, (b"a" * 30, b"b", b""), 0, 1
    ),
    "cext.client.engine.Engine": lambda _: Engine(),
    "cext.net.tls.TlsContext": lambda folder: tls_context(folder),
    "cext.net.tls_stream.TlsClientContext": lambda _: TlsClientContext(
        None, False, None, None, None
    ),
    "cext.net.tls_stream.TlsStream": lambda folder: TlsStream(0, tls_context(folder), True),
    "cext.client.mailbox.EngineBase": lambda _: EngineBase(),
    "cext.client.mailbox.Mailbox": lambda _: Mailbox(Engine()),
    "cext.client.mailbox.Completion": lambda _: Completion(),
    "cext.client.mailbox.Waiter": lambda _: Waiter(),
    "cext.client.sends.SendWaiter": lambda _: SendWaiter(),
    "cext.client.sends.SendCompletion": lambda _: SendCompletion(),
    "cext.client.sends.Sends": lambda _: Sends(),
    "cext.client.sender.Sender": lambda _: Sender(),
    "cext.client.target.Target": target,
    "cext.client.target.TopicQueues": lambda folder: TopicQueues([target(folder)], None),
    "cext.flow.shard_core.ShardCore": lambda _: ShardCore.__new__(ShardCore),
    "cext.load.histogram.Histogram": lambda _: Histogram(),
    "cext.load.signer.Signer": lambda _: Signer(b"alice", b"wonderland"),
    "cext.load.template.FrameSet": lambda _: frame_set(),
}


class Internal:
    """Makes the internal objects of the broker and the load generator, and keeps them until the
    test ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: list[Any] = []

    def load(self) -> dict[str, Callable[[], Any]]:
        from cext.load.resting_loop import RestingLoop

        from cext.load.consumer import Consumer
        from cext.load.event_loop import EventLoop
        from cext.load.popper import Popper
        from cext.load.producer import Producer

        def ours() -> list[socket.socket]:
            self.kept.append(socket.socketpair())
            return [self.kept[-1][0]]

        return {
            "cext.load.consumer.Consumer": lambda: Consumer(frame_set(), ours(), [(0, None)]),
            "cext.load.event_loop.EventLoop": EventLoop,
            "cext.load.popper.Popper": lambda: Popper(frame_set(), [b'"c":"g",'], b"b", ours()),
            "cext.load.producer.Producer": lambda: Producer(frame_set(), ours()),
            "cext.load.resting_loop.RestingLoop": RestingLoop,
        }

    def log(self, *, pooled: bool = False) -> CommitLog:
        folder = self.folder / f"log{len(self.kept)}"
        folder.mkdir()
        self.kept.append(CommitLog(str(folder), 1 << 20, 1 << 20, 1 << 16, pooled=pooled))
        return self.kept[-1]

    def core(self) -> ShardCore:
        with Shard(self.folder) as shard:
            return shard.core

    def net(self) -> dict[str, Callable[[], Any]]:
        from cext.net.connection_table import ConnectionTable
        from cext.net.input import Input
        from cext.net.output import Output
        from cext.net.reactor import Reactor
        from cext.testing.driven_reactor import DrivenReactor
        from cext.testing.line_echo import LineEcho

        from cext.testing.wire_probe import Fuzzing

        return {
            "cext.net.connection_table.ConnectionTable": ConnectionTable,
            "cext.net.input.Input": Input,
            "cext.net.output.Output": Output,
            "cext.net.reactor.Reactor": Reactor,
            "cext.testing.driven_reactor.DrivenReactor": DrivenReactor,
            "cext.testing.line_echo.LineEcho": lambda: LineEcho(Reactor()),
            "cext.testing.wire_probe.Fuzzing": lambda: Fuzzing(1, b"secret"),
        }

    def services(self) -> dict[str, Callable[[], Any]]:
        from cext.flow.append.appender import Appender
        from cext.flow.auth.auth_service import AuthService
        from cext.flow.connection_events import ConnectionEvents
        from cext.flow.context.service import Service
        from cext.flow.context.turn_context import TurnContext
        from cext.flow.control_inbox import ControlInbox
        from cext.flow.delay.delay_service import DelayService
        from cext.flow.fetch.fetch_service import FetchService
        from cext.flow.housekeeping import Housekeeping
        from cext.flow.pop.pop_service import PopService
        from cext.flow.pull.pull_service import PullService
        from cext.flow.replication.ha_service import HAService
        from cext.flow.request_reply.reply_service import ReplyService
        from cext.flow.request_router import RequestRouter
        from cext.flow.send.send_service import SendService
        from cext.flow.slave_replay import SlaveReplay
        from cext.flow.tables.tables import Tables
        from cext.flow.transaction.transaction_service import TransactionService
        from cext.flow.turn import TurnLoop

        kinds: list[Any] = [
            *(Appender, DelayService, FetchService, PopService, PullService, ReplyService),
            *(RequestRouter, SendService, Service, Tables, TransactionService, TurnContext),
            *(AuthService, HAService),
            *(ConnectionEvents, ControlInbox, Housekeeping, SlaveReplay, TurnLoop),
        ]
        return {f"{each.__module__}.{each.__name__}": each for each in kinds}

    def queues(self) -> dict[str, Callable[[], Any]]:
        from cext.store.queues.queue_files import QueueFiles
        from cext.store.queues.queue_persistence import QueuePersistence
        from cext.store.queues.queue_repair import QueueRepair
        from cext.store.queues.queue_writer import QueueWriter
        from cext.store.recovery_state import RecoveryState

        from cext.store.queues.queue_store import QueueStore
        from cext.store.queues.queue_table import QueueTable

        log, folder = self.log(), str(self.folder)
        files = QueueFiles(folder, 100, 10, True)
        return {
            "cext.store.queues.queue_files.QueueFiles": lambda: files,
            "cext.store.queues.queue_persistence.QueuePersistence": lambda: QueuePersistence(
                folder
            ),
            "cext.store.queues.queue_repair.QueueRepair": lambda: QueueRepair(log, folder, 100, ()),
            "cext.store.queues.queue_store.QueueStore": lambda: QueueStore(folder),
            "cext.store.queues.queue_table.QueueTable": lambda: QueueTable(folder),
            "cext.store.queues.queue_writer.QueueWriter": lambda: QueueWriter(files, 64, -1),
            "cext.store.recovery_state.RecoveryState": lambda: RecoveryState(
                log, QueueStore(folder), (), True, {}, folder
            ),
        }

    def store(self) -> dict[str, Callable[[], Any]]:
        from cext.flow.fetch.disk_fetch import FetchPool
        from cext.flow.shard_state import ShardState
        from cext.memory.arena import SharedArena
        from cext.store.deleted_topics import DeletedTopics
        from cext.store.index.index_store import IndexStore
        from cext.store.log.log_cursor import LogCursor
        from cext.store.log.log_scan import LogScan
        from cext.testing.broken_invariant import Pool
        from cext.testing.driven_core import DrivenCore

        from cext.flow.shard_calls import ShardCalls
        from cext.store.index.indexer import Indexer
        from cext.store.log.committer import Committer
        from cext.store.log.disk_reader import DiskReader
        from cext.store.log.flusher import Flusher
        from cext.store.log.log_progress import LogProgress
        from cext.store.log.log_window import LogWindow
        from cext.store.log.preparer import Preparer
        from cext.store.timers.timer_keeper import TimerKeeper
        from cext.testing import stage_loops
        from cext.testing.timer_probe import DrivenHeap, DrivenTimers

        log, folder = self.log(), str(self.folder)
        keeper = TimerKeeper(log, folder, 100)
        return {
            "cext.flow.fetch.disk_fetch.FetchPool": FetchPool,
            **{f"{each.__module__}.{each.__name__}": each for each in ShardCalls.__mro__[:-1]},
            "cext.flow.shard_state.ShardState": ShardState,
            **self.services(),
            "cext.memory.arena.SharedArena": lambda: SharedArena(1 << 20),
            "cext.store.log.commit_log.CommitLog": lambda: log,
            "cext.store.log.committer.Committer": lambda: Committer(self.log(pooled=True)),
            "cext.store.deleted_topics.DeletedTopics": lambda: DeletedTopics({}),
            "cext.store.log.disk_reader.DiskReader": lambda: DiskReader(log),
            "cext.store.log.flusher.Flusher": lambda: Flusher(log),
            "cext.store.index.index_store.IndexStore": lambda: IndexStore(log, folder, 100, 100),
            "cext.store.index.indexer.Indexer": lambda: Indexer(log, folder),
            "cext.store.log.log_progress.LogProgress": LogProgress,
            "cext.store.log.log_scan.LogScan": lambda: LogScan(log),
            "cext.store.log.log_cursor.LogCursor": lambda: LogCursor(log),
            "cext.store.log.log_window.LogWindow": lambda: LogWindow(log, 4096),
            "cext.store.log.preparer.Preparer": lambda: Preparer(log),
            **self.queues(),
            "cext.store.timers.timer_keeper.TimerKeeper": lambda: keeper,
            "cext.testing.broken_invariant.Pool": Pool,
            "cext.testing.driven_core.DrivenCore": lambda: DrivenCore(self.core()),
            "cext.testing.timer_probe.DrivenHeap": lambda: DrivenHeap(10),
            "cext.testing.timer_probe.DrivenTimers": lambda: DrivenTimers(keeper),
            **{
                f"cext.testing.stage_loops.{name}": lambda kind=kind: stage_of(kind, folder)
                for name, kind in vars(stage_loops).items()
                if isinstance(kind, type)
            },
        }


def stage_of(kind: type, folder: str) -> Any:
    """An object of one of the benchmarks' stages."""
    program = compile_expression("a = 1").program
    given: dict[str, tuple[Any, ...]] = {
        "QueuePut": (folder.encode(), 100), "IndexPut": (folder.encode(),),
        "VerdictLook": (b"", b"t", [b"alice"]),
    }  # fmt: skip
    return kind(*given.get(kind.__name__, (program, b"")))


def clients(folder: Path) -> dict[str, Callable[[], Any]]:
    """The objects that users start."""
    addr: Any = {"namesrv_addr": "127.0.0.1:1"}
    return {
        "rmq.Admin": lambda: rmq.Admin(**addr),
        "rmq.DbApiStore": lambda: rmq.DbApiStore(
            importlib.import_module("sqlite3"), str(folder / "seen")
        ),
        "rmq.PopConsumer": lambda: rmq.PopConsumer("g", **addr),
        "rmq.Producer": lambda: rmq.Producer("g", **addr),
        "rmq.PullConsumer": lambda: rmq.PullConsumer("g", **addr),
        "rmq.PushConsumer": lambda: rmq.PushConsumer("g", **addr),
        "rmq.RedisStore": lambda: rmq.RedisStore(Redis()),
        "rmq.SqliteStore": lambda: rmq.SqliteStore(folder / "seen.db"),
        "rmq.TransactionProducer": lambda: rmq.TransactionProducer("g", Listener(), **addr),
        "rmq.aio.PopConsumer": lambda: rmq.aio.PopConsumer("g", **addr),
        "rmq.aio.Producer": lambda: rmq.aio.Producer("g", **addr),
        "rmq.aio.PullConsumer": lambda: rmq.aio.PullConsumer("g", **addr),
        "rmq.aio.PushConsumer": lambda: rmq.aio.PushConsumer("g", **addr),
        "rmq.aio.TransactionProducer": lambda: rmq.aio.TransactionProducer("g", Listener(), **addr),
    }


class Listener:
    execute_local_transaction = check_local_transaction = print


class Redis:
    def register_script(self, text: str) -> str:
        return text


# ---- all classes and names there are


def modules(package: Any) -> Iterator[Any]:
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if found.name.rpartition(".")[2] not in ("__main__", "_build"):
            yield importlib.import_module(found.name)


def classes_of(package: Any) -> Iterator[type]:
    for module in modules(package):
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


# A function, so that only the pytest worker that needs the list imports all of rmq, not each one
# that reads this file.
@cache
def compiled() -> list[type]:
    return sorted(set(classes_of(cext)), key=lambda kind: (kind.__module__, kind.__name__))


@cache
def errors() -> list[type[Exception]]:
    kinds = {
        kind
        for package in (rmq, shards, pyspark_rmq)
        for kind in classes_of(package)
        if issubclass(kind, Exception)
        # Errors of the command line about its words go to no other process.
        and not issubclass(kind, click.ClickException)
    }
    return sorted(kinds, key=lambda kind: (kind.__module__, kind.__name__))


PUBLIC = {
    **{f"rmq.{name}": getattr(rmq, name) for name in rmq.__all__},
    **{f"rmq.aio.{name}": getattr(rmq.aio, name) for name in rmq.aio.__all__},
}


def name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def of_itself(kind: Any) -> bool:
    """Whether Python itself can copy it: members of enums, functions, protocols without objects."""
    return (
        not isinstance(kind, type)
        or issubclass(kind, enum.Enum)
        or Protocol in kind.__bases__
        or issubclass(kind, Exception)
    )


# ---- the tests


def assert_refused(thing: Any) -> None:
    for name, way in WAYS.items():
        with pytest.raises(TypeError) as caught:
            way(thing)
        text = str(caught.value)
        assert "pickl" in text or "__reduce__" in text, (name, text)


def test_every_compiled_class_is_in_a_table(tmp_path: Path) -> None:
    internal = Internal(tmp_path)
    known = {*map(name_of, COPIED), *REFUSING, *internal.load(), *internal.net(), *internal.store()}
    found = {name_of(kind) for kind in compiled() if not issubclass(kind, enum.Enum)}
    assert found <= known, "say in a table of this test what becomes of a copy"
    assert len(found) > 30


def test_every_public_name_is_in_a_table(tmp_path: Path) -> None:
    known = {*clients(tmp_path)}
    unknown = {
        name for name, value in PUBLIC.items()
        if not of_itself(value) and value not in COPIED and name not in known
    }  # fmt: skip
    assert not unknown, "say in a table of this test what becomes of a copy"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", COPIED, ids=lambda kind: kind.__name__)
def test_a_copy_is_what_it_is_a_copy_of(kind: type, way: str) -> None:
    for thing in COPIED[kind]():
        copied = WAYS[way](thing)
        assert copied is not thing or issubclass(kind, tuple)
        assert seen_all(copied) == seen_all(thing)
        assert seen_all(WAYS[way](copied)) == seen_all(thing), "a copy of a copy"


def seen_all(thing: Any) -> Any:
    if isinstance(thing, rmq.TransactionResult):
        return seen(thing.result), thing.state
    return seen(thing)


def test_members_of_compiled_enums_stay_what_they_are() -> None:
    kinds = [kind for kind in compiled() if issubclass(kind, enum.Enum)]
    members = [member for kind in kinds for member in kind if "__Pyx" not in kind.__name__]
    assert members
    for member in members:
        for way in WAYS.values():
            assert way(member) == member


@pytest.mark.parametrize("name", REFUSING)
def test_what_belongs_to_a_process_refuses_and_advises(name: str, tmp_path: Path) -> None:
    thing = REFUSING[name](tmp_path)
    assert_refused(thing)
    with pytest.raises(TypeError, match=r"^a \w+ cannot be pickled or copied: \w.{10,}"):
        pickle.dumps(thing)


def test_clients_refuse_and_advise(tmp_path: Path) -> None:
    for name, make in clients(tmp_path).items():
        thing = make()
        assert_refused(thing)
        with pytest.raises(TypeError) as caught:
            copy.copy(thing)
        assert "in each process" in str(caught.value), name


def test_what_the_broker_has_inside_refuses(tmp_path: Path) -> None:
    internal = Internal(tmp_path)
    for make in [*internal.load().values(), *internal.net().values(), *internal.store().values()]:
        assert_refused(make())


def test_errors_keep_what_they_say() -> None:
    assert RemoteError in errors() and len(errors()) > 30
    for kind in errors():
        keeps_what_it_says(kind)


def keeps_what_it_says(kind: type[Exception]) -> None:
    given: list[Any] = ["what it says", 5]
    if inspect.isfunction(kind.__init__):  # the class has its own, not that of Exception
        wanted = list(inspect.signature(kind.__init__).parameters)[1:]
        given = [{"code": 17, "position": 4}.get(each, f"the {each}") for each in wanted]
    error = kind(*given)
    error.attempts = 3  # type: ignore[attr-defined]
    for name, way in WAYS.items():
        assert seen(way(error)) == seen(error), (name_of(kind), name)


def test_changes_of_a_received_message_are_copied() -> None:
    message = received()[0]
    message.properties["added"] = "later"
    message.topic, message.reconsume_times = "%RETRY%g", 5
    for way in WAYS.values():
        copied = way(message)
        assert (copied.topic, copied.reconsume_times) == ("%RETRY%g", 5)
        assert copied.get_property("added") == "later"
        copied.properties["added"] = "again"
        assert message.get_property("added") == "later"


def test_a_copy_does_not_need_what_it_was_copied_from() -> None:
    """A copy must stay whole when the original is gone: the records of an answer lie in one block,
    which copies do not own."""
    for way in WAYS.values():
        messages = received()
        wanted = [seen(message) for message in messages]
        copies = [way(message) for message in messages]
        del messages
        junk = [bytes([at % 256]) * 70_500 for at in range(50)]
        assert [seen(message) for message in copies] == wanted
        del junk, copies


def test_a_pickled_message_is_as_large_as_its_own_record() -> None:
    small, large, *_ = received()
    assert len(pickle.dumps(small)) < 1000 < 70_000 < len(pickle.dumps(large)) < 71_000


def test_results_of_a_batch_share_their_answer() -> None:
    answer = reply_with(b"", queueId="3", queueOffset="9", recallHandle="H" * 1000)
    batch = [send_result(answer, "orders", "broker-a") for _ in range(20)]
    data = pickle.dumps(batch)
    assert len(data) < 5000
    assert [seen(result) for result in pickle.loads(data)] == [seen(result) for result in batch]


class OwnMessage(Message):
    """A message class as users derive it, with members of their own."""


def test_a_derived_message_stays_one() -> None:
    message = OwnMessage("t", b"body")
    message.note = ["kept"]  # type: ignore[attr-defined]
    for way in WAYS.values():
        copied = way(message)
        assert (type(copied), copied.body, copied.note) == (OwnMessage, b"body", ["kept"])


def test_a_received_message_is_not_made_by_hand() -> None:
    with pytest.raises(TypeError, match="made from a broker's answer"):
        MessageExt()
    empty = MessageExt.__new__(MessageExt)
    for name in ("born_host", "store_host", "offset_message_id", "message_id"):
        with pytest.raises(RmqError):
            getattr(empty, name)
    with pytest.raises(TypeError):
        pickle.dumps(empty)
    with pytest.raises(RmqError):
        _ = Reply.__new__(Reply).fields


def test_bytes_that_are_no_record_are_refused() -> None:
    again, (kind, data, *rest), _ = received()[0].__reduce__()
    for broken in (b"", data[:50], data[:-1], data + b"x", struct.pack(">I", 9) + data[4:]):
        with pytest.raises(RmqError):
            again(kind, broken, *rest)


# ---- with real processes


def worked_on(message: MessageExt) -> tuple[MessageExt, bytes, int]:
    return message, message.body * 2, message.queue_offset


def fails(code: int) -> None:
    raise RemoteError(code, "full")


def test_a_process_pool_takes_messages_and_gives_them_back(broker: RunningBroker) -> None:
    with rmq.Producer("g-pool", namesrv_addr=broker.namesrv_addr) as producer:
        sent = [producer.send(Message("pooled", b"%d" % at, "a", str(at))) for at in range(20)]
    with rmq.PullConsumer(
        "g-pool", namesrv_addr=broker.namesrv_addr, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    ) as consumer:
        consumer.subscribe("pooled")
        got: list[MessageExt] = []
        while len(got) < 20:
            got += consumer.poll(timeout_ms=1000)
    ways = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=ways) as pool:
        done = list(pool.map(worked_on, got))
        assert [seen(message) for message, _, _ in done] == [seen(message) for message in got]
        assert sorted(body for _, body, _ in done) == sorted(b"%d%d" % (at, at) for at in range(20))
        assert [seen(each) for each in pool.map(copy.copy, sent)] == [seen(each) for each in sent]
        with pytest.raises(RemoteError) as caught:
            pool.submit(fails, 14).result()
        assert (caught.value.code, caught.value.remark) == (14, "full")
        with pytest.raises(TypeError, match="cannot be pickled or copied: start one in each"):
            pool.submit(print, producer).result()
