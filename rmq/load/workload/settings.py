"""Settings: a workload file of the OpenMessaging benchmark (benchmark-framework, Workload.java).

    settings = read_settings(Path("1-topic-16-partitions-1kb.yaml"))
    settings.topics, settings.partitions_per_topic, settings.producer_rate     (1, 16, 50_000)

payloadFile is not read: payloads of the same size cost a broker the same, except for how well they
compress, and for that there are useRandomizedPayloads and randomBytesRatio.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rmq.errors import ConfigError
from rmq.load.frames import body_pattern

TOPICS_MAX = 100_000
TEMPLATES_MAX = 400_000  # of about 1 KB: each queue has one for sends and one per subscription
BODY_BYTES_MAX = 4 << 20
RATE_MAX = 1_000_000_000
BACKLOG_GB_MAX = 1_000_000
MINUTES_MAX = 10_000_000
KEYS = 10_000  # distinct keys, as in the benchmark
NO_KEY, KEYED = "NO_KEY", ("KEY_ROUND_ROBIN", "RANDOM_NANO")

Some = Annotated[int, Meta(ge=0)]
Minutes = Annotated[float, Meta(ge=0, le=MINUTES_MAX)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """The members of the file. Minutes may be fractions. Defaults are those of the benchmark."""

    topics: Annotated[int, Meta(ge=1, le=TOPICS_MAX)]
    partitions_per_topic: Annotated[int, Meta(ge=1, le=65_536)]
    message_size: Annotated[int, Meta(ge=0, le=BODY_BYTES_MAX)]
    producers_per_topic: Annotated[int, Meta(ge=1, le=10_000)] = 1
    subscriptions_per_topic: Annotated[int, Meta(ge=0, le=1000)] = 0
    consumer_per_subscription: Annotated[int, Meta(ge=1, le=10_000)] = 1
    # Messages a second; 0: the pace at which consumers keep up.
    producer_rate: Annotated[int, Meta(ge=0, le=RATE_MAX)] = 0
    name: str | None = None  # read_settings() puts the file's own name here if there is none
    key_distributor: str = NO_KEY
    use_randomized_payloads: bool = False
    random_bytes_ratio: Share = 0.0
    randomized_payload_pool_size: Some = 0  # one payload has the same size and entropy as many
    payload_file: str | None = None
    consumer_backlog_size_gb: Annotated[float, Meta(ge=0, le=BACKLOG_GB_MAX)] = msgspec.field(
        default=0.0, name="consumerBacklogSizeGB"
    )
    backlog_drain_ratio: Share = 1.0
    test_duration_minutes: Minutes = 0  # 0: until it is interrupted
    warmup_duration_minutes: Minutes = 1

    def payload(self) -> bytes:
        """The body of a message: random bytes, then zeros; or text."""
        if not self.use_randomized_payloads:
            return body_pattern(self.message_size)
        some = int(self.message_size * self.random_bytes_ratio)
        return random.Random(1).randbytes(some).ljust(self.message_size, b"\0")

    def queues(self, masters: int) -> int:
        """The queues of a topic over all masters: as many as the file says, and at least one at
        each master."""
        return masters * max(1, self.partitions_per_topic // masters)

    def check_templates(self, masters: int = 1) -> None:
        """Raises ConfigError for more queues than a load generator has memory for."""
        queues = self.topics * self.queues(masters)
        if queues * (1 + self.subscriptions_per_topic) > TEMPLATES_MAX:
            of_masters = f" over {masters:,} masters" if masters > 1 else ""
            raise ConfigError(
                f"{queues:,} queues{of_masters} with {self.subscriptions_per_topic:,} "
                f"subscriptions: one load generator carries {TEMPLATES_MAX:,} queues, each counted "
                "once for producers and once for each subscription"
            )

    def keys(self, queues: int) -> tuple[str, ...]:
        """The keys that messages have in turn, the same number for each of `queues` queues. None of
        the benchmark's key distributors chooses the queue by the key."""
        if self.key_distributor == NO_KEY:
            return ()
        turns = -(-KEYS // queues)  # rounded up
        return tuple(f"{number % KEYS:07d}" for number in range(turns * queues))


def read_settings(path: Path) -> tuple[Settings, list[str]]:
    """The settings of a file, and the names of its unknown members, which the benchmark ignores,
    too.

    ConfigError, which names the file: it does not exist, is not YAML, or not a workload."""
    content = _content(path)
    try:
        settings = msgspec.convert(content, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None
    try:
        settings.check_templates()
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if settings.key_distributor not in (NO_KEY, *KEYED):
        known = ", ".join((NO_KEY, *KEYED))
        raise ConfigError(f"{path}: keyDistributor {settings.key_distributor}: one of {known}")
    if settings.consumer_backlog_size_gb and not settings.producer_rate:
        raise ConfigError(f"{path}: a backlog (consumerBacklogSizeGB) needs a producerRate")
    if settings.consumer_backlog_size_gb and not settings.subscriptions_per_topic:
        raise ConfigError(f"{path}: a backlog (consumerBacklogSizeGB) needs subscriptionsPerTopic")
    names = {field.encode_name for field in msgspec.structs.fields(Settings)}
    if not settings.name:
        settings = msgspec.structs.replace(settings, name=path.stem)
    return settings, sorted(set(content) - names)


def _content(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    try:
        content = msgspec.yaml.decode(text)
    except ImportError:
        raise ConfigError("a workload is YAML: pip install 'rmq[yaml]'") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no YAML: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise ConfigError(f"{path} is no workload: names and values are expected")
    return content
