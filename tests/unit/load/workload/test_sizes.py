"""A rig opens no more connections than there is room for, nor more than brokers would leave
open."""

import pytest

from rmq.errors import ConfigError
from rmq.load.workload.settings import Settings
from rmq.load.workload.sizes import Sizes


def settings(**more: float) -> Settings:
    return Settings(topics=1, partitions_per_topic=8, **({"message_size": 1024} | more))


def test_what_fits_is_as_the_file_says() -> None:
    wanted = settings(producers_per_topic=4, consumer_per_subscription=3)
    sizes = Sizes.of(wanted, 2, 50_000.0, 1024)
    assert sizes == Sizes(producers=4, consumers=3, window=1024)
    assert sizes.connections(subscriptions=2) == 10
    assert not list(sizes.less(wanted, 1024))


def test_a_queue_has_one_consumer() -> None:
    assert Sizes.of(settings(consumer_per_subscription=100), 1, 1.0, 1).consumers == 8
    assert Sizes.of(settings(consumer_per_subscription=100), 4, 1.0, 1).consumers == 2
    assert Sizes.of(settings(consumer_per_subscription=100), 20, 1.0, 1).consumers == 1


def test_a_producer_that_would_be_silent_for_a_minute_is_not_there() -> None:
    wanted = settings(producers_per_topic=10_000)
    assert Sizes.of(wanted, 1, 10.0, 1).producers == 600
    assert Sizes.of(wanted, 2, 10.0, 1).producers == 300
    assert Sizes.of(wanted, 1, 0.001, 1).producers == 1
    [less] = Sizes.of(wanted, 1, 10.0, 1).less(wanted, 1)
    assert "600 of 10,000 producers" in less


def test_open_requests_of_large_messages_stay_in_memory() -> None:
    large = settings(message_size=4 << 20, producers_per_topic=16)
    assert Sizes.of(large, 1, 1000.0, 1024).window == 3
    larger = settings(message_size=4 << 20, producers_per_topic=1000)
    assert Sizes.of(larger, 1, 1000.0, 1024).window == 1


@pytest.mark.parametrize(
    ("more", "by_tls", "files"),
    [
        ({}, False, 64 + 2 * (10 + 3)),  # a loop for producers, and one for each subscription
        ({}, True, 64 + 2 * (3 * 10 + 3)),
        ({"consumer_backlog_size_gb": 1.0}, False, 64 + 2 * (10 + 5)),
    ],
    ids=["plain", "TLS", "backlog"],
)
def test_open_files_are_counted(more: dict[str, float], by_tls: bool, files: int) -> None:
    wanted = settings(
        producers_per_topic=4, consumer_per_subscription=3, subscriptions_per_topic=2, **more
    )
    sizes = Sizes.of(wanted, 2, 50_000.0, 1024)
    sizes.check_open_files(wanted, 2, by_tls, files)
    with pytest.raises(ConfigError, match=f"{files} open files are needed for 20 connections"):
        sizes.check_open_files(wanted, 2, by_tls, files - 1)
