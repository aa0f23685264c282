"""Parameters of the client by RocketMQ's names, in snake_case, with their defaults and meaning.

    class ProducerParameters(ClientParameters):
        send_msg_timeout: int = parameter(3000, "...")

A client takes them as keywords, or a whole object: `Producer("g", send_msg_timeout=1000)`,
`Producer("g", parameters=ProducerParameters(send_msg_timeout=1000))`. They can be changed as
attributes of `client.parameters` until it is started. The reference page docs/client-parameters.md
is written from this module by `python -m rmq.client.parameters`; a test compares the two.

Times are milliseconds, sizes bytes, unless the text says otherwise.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from rmq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rmq.client.hooks import RpcHook

P = TypeVar("P", bound="ClientParameters")
FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"
)  # fmt: skip


def check_from_where(value: str) -> None:
    """Of a consumer's parameters; ConfigError for any other word."""
    if value not in FROM_WHERE:
        raise ConfigError(f"consume_from_where={value}: {FROM_WHERE}")


def parameter(default: Any, text: str, java: str = "") -> Any:
    """A field with its meaning; `java` where the name in Java is not the camel case of ours."""
    return field(default=default, metadata={"text": text, "java": java})


@dataclass(kw_only=True)
class ClientParameters:
    """What producers, consumers and Admin have in common."""

    namesrv_addr: str | None = parameter(
        None, "name servers, `host:port`, several separated by `;`. Unset: the environment's "
        "NAMESRV_ADDR, then `namesrv_file`, then `namesrv_http`, then 127.0.0.1:9876",
    )  # fmt: skip
    namesrv_file: str | None = parameter(
        None, "a file whose text is the list of name servers; read again every two minutes "
        "(not in Java)",
        "-",
    )  # fmt: skip
    namesrv_http: str | None = parameter(
        None, "URL of an address server, whose answer is the list of name servers; asked every "
        "two minutes. Java's is http://jmenv.tbsite.net:8080/rocketmq/nsaddr",
        "-",
    )  # fmt: skip
    client_ip: str | None = parameter(
        None, "address of this machine in the client id and in message ids; found out when unset",
        "clientIP",
    )  # fmt: skip
    instance_name: str = parameter(
        "DEFAULT", "clients of one process with equal name, name servers and unit share their "
        "connections; DEFAULT becomes the process id in the client id",
    )  # fmt: skip
    client_callback_executor_threads: int = parameter(
        2, "threads that run the callbacks of asynchronous requests"
    )
    poll_name_server_interval: int = parameter(30_000, "how often routes are read again")
    heartbeat_broker_interval: int = parameter(30_000, "how often brokers get a heartbeat")
    persist_consumer_offset_interval: int = parameter(
        5_000, "how often consumers tell brokers how far they are"
    )
    pull_time_delay_mills_when_exception: int = parameter(
        1_000, "pause before the pull after one that failed"
    )
    unit_mode: bool = parameter(False, "the unit flag of sends and heartbeats")
    unit_name: str | None = parameter(None, "part of the client id, to keep units apart")
    namespace: str | None = parameter(
        None, "put before topics and groups as `namespace%name`, and taken off what is received"
    )
    access_channel: str = parameter("LOCAL", "accepted without effect")
    language: str = parameter("PYTHON", "accepted; brokers are told PYTHON")
    vip_channel_enabled: bool = parameter(
        False, "connect to the brokers' second port (listenPort - 2)"
    )
    use_tls: bool = parameter(False, "encrypt all connections", "useTLS")
    tls_ca_file: str | None = parameter(
        None,
        "certificates that are trusted; unset: the system's",
        "-",
    )
    tls_verify: bool = parameter(
        True,
        "check the peer's certificate and name (Java's default does not)",
        "-",
    )
    mq_client_api_timeout: int = parameter(3_000, "patience with name servers and admin requests")
    decode_read_body: bool = parameter(True, "accepted; a body is read when it is asked for")
    decode_decompress_body: bool = parameter(
        True, "accepted; a packed body is unpacked when it is asked for"
    )
    socks_proxy_config: str = parameter("{}", "accepted; refused when not empty")
    detect_timeout: int = parameter(200, "patience when a slow broker is probed")
    detect_interval: int = parameter(2_000, "how often slow brokers are probed")
    start_detector_enable: bool = parameter(False, "probe brokers that were slow or failed")
    send_latency_enable: bool = parameter(
        False, "avoid brokers for a while after slow or failed sends (latency fault tolerance)"
    )
    enable_stream_request_type: bool = parameter(False, "accepted without effect")
    enable_heartbeat_channel_event_listener: bool = parameter(
        True, "a lost connection is followed by a heartbeat at once"
    )
    enable_concurrent_heartbeat: bool = parameter(
        False, "accepted; heartbeats to all brokers are always under way together"
    )
    concurrent_heartbeat_thread_pool_size: int = parameter(2, "accepted without effect")
    enable_trace: bool = parameter(False, "send a trace of each message to the trace topic")
    trace_topic: str | None = parameter(None, "its name; unset: RMQ_SYS_TRACE_TOPIC")
    trace_msg_batch_num: int = parameter(10, "traces that are sent together")
    max_page_size_in_get_metadata: int = parameter(2_000, "accepted without effect")
    rpc_hook: RpcHook | None = parameter(
        None, "sees every request before it is sent and every answer (signatures of accounts)"
    )

    def changed(self: P, changes: Mapping[str, Any]) -> P:
        """A copy with these changes; ConfigError for a name or a value that cannot be."""
        known = {each.name: each for each in dataclasses.fields(self)}
        for name in changes:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"no parameter {name} of {type(self).__name__}{hint}")
        copy = dataclasses.replace(self, **changes)
        copy.check()
        return copy

    def check(self) -> None:
        """ConfigError when a value is of another type than its default, or negative."""
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            wanted = type(each.default)
            if each.default is None or each.default is dataclasses.MISSING or wanted is object:
                continue
            if wanted is int and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"{each.name}={value!r}: a whole number is wanted")
            if wanted is int and value < min(each.default, 0):
                raise ConfigError(f"{each.name}={value}: at least {min(each.default, 0)}")
            if wanted in (bool, str) and not isinstance(value, wanted):
                raise ConfigError(f"{each.name}={value!r}: a {wanted.__name__} is wanted")
        if self.socks_proxy_config not in ("", "{}"):
            raise ConfigError("socks_proxy_config: proxies are not supported")


@dataclass(kw_only=True)
class ProducerParameters(ClientParameters):
    """Of Producer and TransactionProducer."""

    producer_group: str = parameter(
        "DEFAULT_PRODUCER", "producers that send the same kind of messages; brokers ask any of "
        "them about an open transaction",
    )  # fmt: skip
    topics: tuple[str, ...] = parameter((), "topics whose route is read at the start")
    create_topic_key: str = parameter(
        "TBW102", "topic whose settings an automatically created one takes"
    )
    default_topic_queue_nums: int = parameter(4, "queues of an automatically created topic")
    send_msg_timeout: int = parameter(3_000, "time for a send with all its retries")
    send_msg_max_timeout_per_request: int = parameter(
        -1, "time for one try; -1: what is left of send_msg_timeout"
    )
    compress_msg_body_over_howmuch: int = parameter(4_096, "bodies of this size on are packed")
    compress_level: int = parameter(5, "1 fast .. 9 small")
    compress_type: str = parameter("ZLIB", "ZLIB, LZ4 or ZSTD; clients before 4.9.4 read ZLIB only")
    retry_times_when_send_failed: int = parameter(2, "further tries of send, on other brokers")
    retry_times_when_send_async_failed: int = parameter(
        2, "further tries of send_async, on other brokers"
    )
    retry_another_broker_when_not_store_ok: bool = parameter(
        False, "try another broker when one stored it but not as safely as wished",
        "retryAnotherBrokerWhenNotStoreOK",
    )  # fmt: skip
    max_message_size: int = parameter(4 << 20, "of one body, or one batch")
    auto_batch: bool = parameter(False, "gather asynchronous sends of a topic into batches")
    batch_max_delay_ms: int = parameter(-1, "a batch waits so long for more; -1: 10")
    batch_max_bytes: int = parameter(-1, "a batch is sent at this size; -1: 32768")
    total_batch_max_bytes: int = parameter(-1, "of all batches under way; -1: 32 MiB")
    enable_backpressure_for_async_mode: bool = parameter(
        False, "send_async waits while as much as the next two say is under way; otherwise the "
        "limits are 65535 messages and 100 MiB",
    )  # fmt: skip
    back_pressure_for_async_send_num: int = parameter(1_024, "messages under way")
    back_pressure_for_async_send_size: int = parameter(100 << 20, "bytes under way")


@dataclass(kw_only=True)
class TransactionProducerParameters(ProducerParameters):
    """Of TransactionProducer."""

    transaction_listener: Any = parameter(
        None, "executes local transactions and answers checks (transaction_check_listener of old)"
    )
    check_thread_pool_min_size: int = parameter(1, "threads that answer checks")
    check_thread_pool_max_size: int = parameter(1, "threads that answer checks, at most")
    check_request_hold_max: int = parameter(2_000, "checks that wait; more are dropped")


@dataclass(kw_only=True)
class PullConsumerParameters(ClientParameters):
    """Of PullConsumer."""

    consumer_group: str = parameter(
        "DEFAULT_CONSUMER", "consumers that share the queues of the topics they subscribe, and "
        "their offsets",
    )  # fmt: skip
    auto_commit: bool = parameter(
        True, "poll tells brokers how far earlier polls came; close does so as well"
    )
    auto_commit_interval_millis: int = parameter(5_000, "how often; at least 1000")
    poll_timeout_millis: int = parameter(5_000, "how long poll waits unless it is told")
    pull_batch_size: int = parameter(
        10, "messages of one pull; for more than 32 rmq's brokers give up to 512 KiB, others still "
        "32 unless they are set otherwise",
    )  # fmt: skip
    pull_threshold_for_all: int = parameter(10_000, "messages pulled ahead")
    pull_threshold_for_queue: int = parameter(1_000, "messages pulled ahead of one queue")
    pull_threshold_size_for_queue: int = parameter(100, "their bodies in MiB")
    consume_max_span: int = parameter(
        2_000, "distance of the offsets of the first and last message pulled ahead of one queue"
    )
    consume_from_where: str = parameter(
        "CONSUME_FROM_LAST_OFFSET", "where a group begins in a queue it never committed: "
        "CONSUME_FROM_LAST_OFFSET, CONSUME_FROM_FIRST_OFFSET or CONSUME_FROM_TIMESTAMP. As with "
        "all clients, brokers that still hold the first message send new groups there",
    )  # fmt: skip
    consume_timestamp: int | None = parameter(
        None, "the time of CONSUME_FROM_TIMESTAMP, ms since 1970; unset: half an hour ago"
    )
    allocate_message_queue_strategy: object = parameter(
        None, "who of the group reads which queue: AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, or a "
        "strategy of rmq.client.allocation; unset: AVG. All members must have the same",
    )  # fmt: skip
    broker_suspend_max_time_millis: int = parameter(
        20_000, "how long brokers hold a pull for which there is nothing yet"
    )
    consumer_timeout_millis_when_suspend: int = parameter(
        30_000, "patience with a pull; more than broker_suspend_max_time_millis"
    )

    def check(self) -> None:
        super().check()
        check_from_where(self.consume_from_where)
        for name in ("pull_batch_size", "pull_threshold_for_all", "pull_threshold_for_queue",
                     "pull_threshold_size_for_queue"):  # fmt: skip
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: at least 1")


@dataclass(kw_only=True)
class PopConsumerParameters(ClientParameters):
    """Of PopConsumer."""

    consumer_group: str = parameter(
        "DEFAULT_CONSUMER", "consumers that share the messages of the topics they subscribe"
    )
    consume_orderly: bool = parameter(
        False, "a queue has one batch in hand at a time, and it comes again in order", "order"
    )
    pop_invisible_time: int = parameter(
        60_000, "how long a message is nobody else's; 5000 to 300000"
    )
    pop_batch_nums: int = parameter(32, "messages of one poll, at most 32")
    poll_timeout_millis: int = parameter(5_000, "how long poll waits unless it is told")
    consume_from_where: str = parameter(
        "CONSUME_FROM_LAST_OFFSET", "where a group begins that never popped: "
        "CONSUME_FROM_FIRST_OFFSET, or at the end with any other value",
    )  # fmt: skip

    def check(self) -> None:
        super().check()
        check_from_where(self.consume_from_where)
        for name, least, most in (("pop_invisible_time", 5_000, 300_000),
                                  ("pop_batch_nums", 1, 32)):  # fmt: skip
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"{name}={getattr(self, name)}: {least} to {most}")


def rows(of: type[ClientParameters]) -> list[tuple[str, str, str, str]]:
    """(name, name in Java, default, meaning) of the parameters that `of` adds to its base."""
    return [
        (each.name, each.metadata["java"] or java_name(each.name), f"{each.default!r}",
         each.metadata["text"]) for each in own_fields(of)
    ]  # fmt: skip


def own_fields(of: type[ClientParameters]) -> list[dataclasses.Field[Any]]:
    """The parameters that `of` adds to its base."""
    base = of.__mro__[1]
    inherited = {each.name for each in dataclasses.fields(base)} if dataclasses.is_dataclass(
        base) else set()  # fmt: skip
    return [each for each in dataclasses.fields(of) if each.name not in inherited]


def java_name(name: str) -> str:
    """snake_case as camelCase."""
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def page() -> str:
    """The reference page, as Markdown."""
    lines = ["# Parameters of the Python client", "", PAGE_HEAD, ""]
    for of in tables():
        lines += [f"## {of.__name__}", "", of.__doc__ or "", ""]
        lines += ["| parameter | RocketMQ's name | default | meaning |", "|---|---|---|---|"]
        for name, java, default, text in rows(of):
            lines.append(
                f"| `{name}` | {java} | `{default}` | {text.replace('|', chr(92) + '|')} |"
            )
        lines.append("")
    lines += ["## Message", "", "What one sends; all but the first two are keywords.", ""]
    lines += ["| argument | RocketMQ's name | default | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {java} | `{default}` | {text} |" for name, java, default, text in MESSAGE
    ]
    return "\n".join(lines)


MESSAGE = (
    ("topic", "Topic", "-", "where it goes; 1 to 127 letters, digits, %, |, - and _"),
    ("body", "Body", "-", "bytes, or text that is sent as UTF-8; not empty"),
    ("tags", "Tags", "None", "one tag, which brokers filter by"),
    ("keys", "Keys", "None", "what it is found by: text with blanks between, or a list"),
    ("properties", "Properties", "None", "names and values of the user's own"),
    ("flag", "Flag", "0", "a number of the user's own"),
    ("delay_level", "DelayTimeLevel", "0", "1 to 18: 1s 5s 10s 30s 1m .. 10m 20m 30m 1h 2h"),
    ("delay_seconds", "DelayTimeMs", "None", "delayed by so long, to the millisecond"),
    ("deliver_at", "DeliverTimeMs", "None", "delayed until then: a datetime, or ms since 1970"),
    ("sharding_key", "ShardingKey", "None", "equal keys go to one queue and keep their order"),
    ("wait_store_msg_ok", "WaitStoreMsgOK", "True", "answered when it is as safe as the broker "
     "promises; False: when it is received"),
)  # fmt: skip


PAGE_HEAD = """Written by `python -m rmq.client.parameters` from `rmq/client/parameters.py` and
`push_parameters.py`.
Times are milliseconds, sizes bytes, unless the text says otherwise. All are keywords of the class
they belong to: `Producer("group", send_msg_timeout=1000)`."""


def tables() -> list[type[ClientParameters]]:
    """The classes of the page, in its order."""
    from rmq.client.push_parameters import PushConsumerParameters

    return [
        ClientParameters, ProducerParameters, TransactionProducerParameters,
        PushConsumerParameters, PullConsumerParameters, PopConsumerParameters,
    ]  # fmt: skip


# Arguments of the classes, and so not among their keywords.
ARGUMENTS = ("producer_group", "consumer_group", "message_listener", "transaction_listener")

KEYWORDS_HEAD = '''\
"""The parameters as keywords, for type checkers: `Producer("g", send_msg_timeout=1000)`.

Written by `python -m rmq.client.parameters keywords` from the classes of parameters.py and
push_parameters.py; a test compares the two. Nothing imports it at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from rmq.client.hooks import RpcHook
'''


def keywords() -> str:
    """The text of keywords.py: a TypedDict for each class of parameters."""
    lines = [KEYWORDS_HEAD]
    for of in tables():
        base = "TypedDict" if of is ClientParameters else _keywords_of(of.__mro__[1])
        head = f"class {_keywords_of(of)}({base}, total=False):"
        lines += ["", head, f'    """{of.__doc__}"""', ""]
        own = [each for each in own_fields(of) if each.name not in ARGUMENTS]
        lines += [f"    {each.name}: {each.type}" for each in own]
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def _keywords_of(of: type) -> str:
    return of.__name__.replace("Parameters", "Keywords")


def main(write: Callable[[str], object] = print) -> None:
    write(keywords() if sys.argv[1:] == ["keywords"] else page())


if __name__ == "__main__":
    main()
