"""A rig opens no more than there is room for, and what brokers would not close."""

from rmq.load.workload.rig import Sizes
from rmq.load.workload.settings import Settings


def settings(**more: int) -> Settings:
    return Settings(topics=1, partitions_per_topic=8, **({"message_size": 1024} | more))


def test_what_fits_is_as_the_file_says() -> None:
    sizes = Sizes.of(
        settings(producers_per_topic=4, consumer_per_subscription=3), 2, 4, 50_000.0, 1024
    )
    assert sizes == Sizes(producers=4, consumers=3, window=1024)
    assert sizes.connections(subscriptions=2) == 10


def test_a_queue_has_one_consumer() -> None:
    assert Sizes.of(settings(consumer_per_subscription=100), 1, 8, 1.0, 1).consumers == 8


def test_a_producer_that_would_be_silent_for_a_minute_is_not_there() -> None:
    wanted = settings(producers_per_topic=10_000)
    assert Sizes.of(wanted, 1, 8, 10.0, 1).producers == 600
    assert Sizes.of(wanted, 2, 8, 10.0, 1).producers == 300
    assert Sizes.of(wanted, 1, 8, 0.001, 1).producers == 1


def test_open_requests_of_large_messages_stay_in_memory() -> None:
    large = settings(message_size=4 << 20, producers_per_topic=16)
    assert Sizes.of(large, 1, 8, 1000.0, 1024).window == 3
    larger = settings(message_size=4 << 20, producers_per_topic=1000)
    assert Sizes.of(larger, 1, 8, 1000.0, 1024).window == 1
