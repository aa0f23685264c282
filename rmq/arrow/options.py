"""Options: of the source and the sink: names, types, defaults, limits.

Names are those of Spark's Kafka source where one exists, so that a job moves by changing format()
and its addresses. Spark hands names over in lower case; here they have their written form. Two
names of the old RocketMQ connector are understood: nameServer is nameserver, subExpression is tags.

    options = read_options({"nameserver": "127.0.0.1:9876", "topic": "orders"}, streaming=False)
    options.max_offsets_per_trigger       None: not given

An impossible value is refused with OptionError, whose text names the option and what to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from rmq.errors import ConfigError
from rmq.format.packed_body import UNPACKED_BYTES_MAX

HIDDEN = re.compile("secret|password|token")

READ, STREAM, WRITE = "batch", "stream", "write"
ANYWHERE = "any"
READS = (READ, STREAM)
ALL = (READ, STREAM, WRITE)
# Options that Spark itself or generic jobs give: unknown to this source, but no mistake.
FOREIGN = {"checkpointlocation", "queryname", "path", "truncate", "numrows"}
_SIZES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30,
          "gb": 1 << 30}  # fmt: skip
_TIMES = {"": 1, "ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000,
          "d": 86_400_000}  # fmt: skip
YEAR_MS = 366 * 86_400_000


class OptionError(ConfigError):
    """An option is unknown, missing, contradicts another one or has an impossible value."""


@dataclass(frozen=True)
class Option:
    """One option; `parse` turns its text into a value or raises ValueError with what is wanted."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    where: tuple[str, ...]
    about: str

    @property
    def attribute(self) -> str:
        text = re.sub(r"[.]", "_", self.name)
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()


def text(value: str) -> str:
    if not value.strip():
        raise ValueError("a value that is not empty")
    return value.strip()


def words(value: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    if not found:
        raise ValueError("names, separated by commas")
    return found


def tag_list(value: str) -> tuple[str, ...]:
    """ "a || b" as RocketMQ writes it, or "a,b"; "*" is every tag."""
    found = tuple(part.strip() for part in re.split(r"\|\||,", value) if part.strip())
    return () if found in ((), ("*",)) else found


def boolean(value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.strip().lower() == "true"


def number(low: int, high: int = 1 << 62) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not re.fullmatch(r"-?\d{1,19}", value.strip()) or not low <= int(value) <= high:
            raise ValueError(f"a number from {low} on" if high == 1 << 62 else
                             f"a number from {low} to {high}")  # fmt: skip
        return int(value)

    return parse


def size(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        found = re.fullmatch(r"(\d{1,18})\s*([a-z]*)", value.strip().lower())
        if found is None or found[2] not in _SIZES:
            raise ValueError("bytes, perhaps with k, m or g")
        result = int(found[1]) * _SIZES[found[2]]
        if not low <= result <= high:
            raise ValueError(f"{low} to {high} bytes")
        return result

    return parse


def duration(low_ms: int, high_ms: int = YEAR_MS) -> Callable[[str], int]:
    """Milliseconds of "500ms", "15m", "2 h"; a bare number is milliseconds."""

    def parse(value: str) -> int:
        found = re.fullmatch(r"(\d{1,15})\s*([a-z]*)", value.strip().lower())
        if found is None or found[2] not in _TIMES:
            raise ValueError("a time such as 500ms, 10s, 15m")
        result = int(found[1]) * _TIMES[found[2]]
        if not low_ms <= result <= high_ms:
            raise ValueError(f"a time from {low_ms} to {high_ms} ms")
        return result

    return parse


def choice(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.strip().lower() not in allowed:
            raise ValueError(" or ".join(allowed))
        return value.strip().lower()

    return parse


TABLE = [
    Option("nameserver", text, None, ALL, "name servers, host:port, separated by ';'"),
    Option("topic", words, None, ALL, "topics to read, or the topic to write to"),
    Option("subscribe", words, None, READS, "the same as topic"),
    Option("subscribePattern", text, None, READS, "regular expression a topic's name must match"),
    Option("assign", text, None, READS, 'queues: {"orders":{"broker-a":[0,1]}}'),
    Option("path", text, None, (READ,), "a store directory, read without a broker"),
    Option("brokerName", text, None, (READ,), "with path: what the column brokerName shows"),
    Option("startingOffsets", text, None, READS, "earliest, latest, group or offsets per queue"),
    Option("startingTimestamp", number(0), None, READS, "ms since 1970, every queue"),
    Option("startingOffsetsByTimestamp", text, None, READS, "ms since 1970 per queue"),
    Option("startingOffsetsByTimestampStrategy", choice("error", "latest"), "error", READS,
           "of a queue whose messages are all older: the read fails, or begins at its end"),
    Option("endingOffsets", text, None, (READ,), "latest or offsets per queue"),
    Option("endingTimestamp", number(0), None, (READ,), "ms since 1970, every queue"),
    Option("endingOffsetsByTimestamp", text, None, (READ,), "ms since 1970 per queue"),
    Option("failOnDataLoss", boolean, True, READS, "fail when messages to be read are gone"),
    Option("minPartitions", number(1, 1 << 20), None, READS, "at least about so many tasks"),
    Option("maxPartitions", number(1, 1 << 20), None, READS, "at most so many tasks"),
    Option("maxRecordsPerPartition", number(1), None, READS, "messages of one task at most"),
    Option("maxBytesPerPartition", size(1 << 10, 1 << 50), None, READS, "estimated, of one task"),
    Option("maxOffsetsPerTrigger", number(1), None, (STREAM,), "of a batch; each queue rounds up"),
    Option("minOffsetsPerTrigger", number(1), None, (STREAM,), "wait until so many are there"),
    Option("maxTriggerDelay", duration(0), 15 * 60_000, (STREAM,), "but no longer than this"),
    Option("maxBytesPerTrigger", size(1 << 10, 1 << 50), None, (STREAM,), "estimated, of a batch"),
    Option("group", text, None, READS, "consumer group: startingOffsets=group, commitOffsets"),
    Option("commitOffsets", boolean, False, (STREAM,), "tell the brokers what is processed"),
    Option("tags", tag_list, (), READS, "only messages with one of these tags"),
    Option("sql", text, None, READS, "SQL92 filter, applied by the brokers"),
    Option("columns", words, None, READS, "columns wanted; fewer are faster"),
    Option("includeBody", boolean, True, READS, "false leaves the body out"),
    Option("includeProperties", boolean, True, READS, "false leaves the map of properties out"),
    Option("includeHeaders", boolean, False, READS, "with schema=kafka: the column headers"),
    Option("schema", choice("rmq", "kafka"), "rmq", ALL, "kafka: the columns of Spark's for Kafka"),
    Option("mode", choice("failfast", "permissive", "dropmalformed"), "failfast", READS,
           "what a damaged message becomes"),
    Option("pushdown", boolean, False, (READ,), "use Spark's filters for planning"),
    # Spark gives a batch a power of two of memory: one message above this still fits into 8 MiB.
    Option("batchBytes", size(64 << 10, 64 << 20), 8000 << 10, READS, "of one Arrow batch"),
    Option("batchRows", number(1, 1 << 20), 16384, READS, "of one Arrow batch at most"),
    Option("fetchBytes", size(32 << 10, 8 << 20), 1 << 20, READS, "asked for in one pull"),
    Option("maxUnpackedBytes", size(1 << 10, 1 << 30), UNPACKED_BYTES_MAX, READS,
           "of one unpacked body"),
    Option("planTimeoutMs", duration(0, 86_400_000), 15_000, READS, "for brokers at the start"),
    Option("pollTimeoutMs", duration(1, 86_400_000), 120_000, ALL, "for a broker that is away"),
    Option("fetchOffset.numRetries", number(0, 1000), 3, READS, "of questions about offsets"),
    Option("fetchOffset.retryIntervalMs", duration(0, 3_600_000), 10, READS, "between them"),
    Option("gcFreeze", boolean, True, READS, "keeps Spark's collector off what never changes"),
    Option("accessKey", text, None, ALL, "account, with secretKey"),
    Option("secretKey", text, None, ALL, "its secret"),
    Option("securityToken", text, None, ALL, "its token, when it has one"),
    Option("tls", boolean, False, ALL, "speak TLS with name servers and brokers"),
    Option("tlsCaFile", text, None, ALL, "certificates to trust instead of the system's"),
    Option("tlsVerify", boolean, True, ALL, "false takes any certificate"),
    Option("tlsCertFile", text, None, ALL, "shown to servers that ask for a certificate"),
    Option("tlsKeyFile", text, None, ALL, "its key, when it is in another file"),
    Option("tlsKeyPassword", text, None, ALL, "of a key that is locked"),
    Option("producerGroup", text, "SPARK_PRODUCER", (WRITE,), "group of the sends"),
    Option("transactional", boolean, False, (WRITE,), "rows are seen when the batch commits"),
    Option("transactionTimeout", duration(0), 3_600_000, (WRITE,), "no check back before"),
    Option("batchSendBytes", size(1 << 10, 3 << 20), 256 << 10, (WRITE,), "of one send"),
    Option("sendTimeoutMs", duration(1, 3_600_000), 10_000, (WRITE,), "of one send"),
    Option("sendRetries", number(0, 1000), 5, (WRITE,), "of a send that is refused, elsewhere"),
    Option("idPrefix", text, None, (WRITE,), "of the ids of rows; default: what ran the write"),
]  # fmt: skip
CATALOG = "option."  # what Spark's catalog puts before them when a table is created
OF_A_TABLE = (
    "CREATE TABLE .. USING rmq: Spark keeps the options of such a table, and gives them to no data "
    "source in Python when it is read. CREATE TEMPORARY VIEW .. USING rmq OPTIONS (..) has them"
)
ALIASES = {"subexpression": "tags", "sqlfilter": "sql"}
_BY_KEY = {option.name.lower(): option for option in TABLE}


class Options:
    """Values by attribute: options.max_partitions. Missing ones are their defaults."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.where = where
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self) -> str:
        shown = {key: value for key, value in self._values.items() if not HIDDEN.search(key)}
        return f"Options({shown})"


def lenient_options(given: Mapping[str, str]) -> Options:
    """Options checked one by one, while it is not known whether they are for a read or a write."""
    return parse_options(given, ANYWHERE)


def parse_options(given: Mapping[str, str], where: str) -> Options:
    """Every option checked by itself; read_options and write_options check them together."""
    values = {option.attribute: option.default for option in TABLE}
    if any(raw.lower().startswith(CATALOG) for raw in given):
        raise OptionError(OF_A_TABLE)
    for raw, value in given.items():
        key = ALIASES.get(raw.lower(), raw.lower())
        option = _BY_KEY.get(key)
        if option is None or where not in (ANYWHERE, *option.where):
            if key not in FOREIGN:
                raise OptionError(_unknown(raw, option, where))
            continue
        try:
            values[option.attribute] = option.parse(value)
        except ValueError as error:
            raise OptionError(f"option {option.name}={value!r}: give {error}") from None
    return Options(values, where)


def _unknown(raw: str, option: Option | None, where: str) -> str:
    if option is not None:
        others = " and ".join(option.where)
        return f"option {option.name} does not count for {where}, only for {others}: leave it out"
    if raw.lower().startswith("kafka."):
        return f"option {raw} is Kafka's: give nameserver=host:port instead"
    near = get_close_matches(raw.lower(), list(_BY_KEY), n=1)
    hint = f"did you mean {_BY_KEY[near[0]].name}?" if near else "see rmq spark options"
    return f"option {raw} is unknown: {hint}"


def read_options(given: Mapping[str, str], streaming: bool) -> Options:
    """The options of a read, checked together."""
    options = parse_options(given, STREAM if streaming else READ)
    values = options._values
    values["topics"] = tuple(options.topic or ()) + tuple(options.subscribe or ())
    chosen = [name for name, value in (("topic (or subscribe)", values["topics"]),
              ("subscribePattern", options.subscribe_pattern), ("assign", options.assign))
              if value]  # fmt: skip
    local = not streaming and options.path is not None
    if local == (options.nameserver is not None):
        raise OptionError(
            "options nameserver and path: give one of them, not both"
            if local
            else "option nameserver is missing: give host:port of a name server"
            + ("" if streaming else ", or path=STORE_DIR to read a store without a broker")
        )
    if len(chosen) > 1:
        raise OptionError(f"options {' and '.join(chosen)}: give only one of them")
    if not chosen and not local:
        raise OptionError("no topic: give topic, subscribePattern or assign")
    if options.subscribe_pattern is not None:
        try:
            re.compile(options.subscribe_pattern)
        except re.error as error:
            raise OptionError(f"option subscribePattern: {error}") from None
    _check_pairs(options, local)
    return options


def _check_pairs(options: Options, local: bool) -> None:
    if (options.access_key is None) != (options.secret_key is None):
        raise OptionError("options accessKey and secretKey: give both or none")
    if options.sql is not None and options.tags:
        raise OptionError("options sql and tags: give one; TAGS is a property in SQL too")
    if options.sql is not None and local:
        raise OptionError("option sql is applied by brokers: with path use DataFrame.where")
    low, high = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if low is not None and high is not None and low > high:
        raise OptionError(f"option minOffsetsPerTrigger={low} is more than maxOffsetsPerTrigger")
    if options.commit_offsets and options.group is None:
        raise OptionError("option commitOffsets=true needs option group")
    if options.where == READ and options.starting_offsets == "latest":
        raise OptionError("option startingOffsets=latest would read nothing in a batch")
    if options.starting_offsets == "group" and (options.group is None or local):
        raise OptionError("option startingOffsets=group needs option group and a broker")
    if options.include_headers and options.schema != "kafka":
        raise OptionError("option includeHeaders is for schema=kafka; here it is properties")


def write_options(given: Mapping[str, str]) -> Options:
    options = parse_options(given, WRITE)
    if options.nameserver is None:
        raise OptionError("option nameserver is missing: give host:port of a name server")
    if options.topic is not None and len(options.topic) != 1:
        raise OptionError("option topic: one topic; for several use a column topic")
    if (options.access_key is None) != (options.secret_key is None):
        raise OptionError("options accessKey and secretKey: give both or none")
    return options
