"""One measured run of a Python client, in a process of its own; prints one line of JSON.

    python bench/client_worker.py send ours 127.0.0.1:9876 128 1000000
    python bench/client_worker.py poll confluent 127.0.0.1:9092 1024 500000

send: sends COUNT messages of SIZE bytes with a callback for each, which counts them; both clients
gather sends for 5 ms. poll: reads COUNT of the messages that were sent, from the first on, in lists
of at most 1000, and looks at the length of each body. A tenth of COUNT comes first and is not
measured. CPU is that of this process (all its threads), from before the first message to after the
last.
"""

import json
import resource
import sys
import time
from collections.abc import Callable

LINGER_MS = 5
WAIT_S = 60
QUEUES = 4
POLL_MESSAGES = 1000
POLL_S = 10


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def topic_of(size: int) -> str:
    return f"bench-client-{size}"


def measured(work: Callable[[int], None], done: list[int], count: int) -> dict[str, float]:
    """Rate and CPU of work(count). work(n) returns when it has handled at least n messages and has
    counted them in done[0]."""
    work(count // 10)
    done[0] = 0
    cpu, began = cpu_seconds(), time.perf_counter()
    work(count)
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    if not count <= done[0] < count + POLL_MESSAGES:
        raise SystemExit(f"{done[0]} of {count} messages were done")
    return {"rate": done[0] / seconds, "cpu_per_million": cpu / done[0] * 1e6}


def send_ours(address: str, size: int, count: int) -> dict[str, float]:
    from rmq import Admin, Message, Producer, SendResult

    with Admin(namesrv_addr=address) as admin:
        admin.create_topic(topic_of(size), QUEUES)
    topic, body, acked = topic_of(size), b"x" * size, [0]
    errors: list[Exception] = []
    calls: list[None] = []  # a list, because two threads call back: += on a number would lose some

    def called(result: SendResult | None, error: Exception | None) -> None:
        if error is None:
            calls.append(None)
        else:
            errors.append(error)

    with Producer(
        "bench-client", namesrv_addr=address, auto_batch=True, batch_max_delay_ms=LINGER_MS
    ) as producer:

        def send(number: int) -> None:
            calls.clear()
            send_async = producer.send_async
            for _ in range(number):
                send_async(Message(topic, body), called)
            producer.flush(WAIT_S * 1000)
            acked[0] = len(calls)
            if errors:
                raise SystemExit(f"{len(errors)} of {number} failed, the first: {errors[0]!r}")

        return measured(send, acked, count)


def send_confluent(address: str, size: int, count: int) -> dict[str, float]:
    from confluent_kafka import Message, Producer

    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": LINGER_MS, "acks": 1,
         "queue.buffering.max.messages": 100_000}
    )  # fmt: skip
    topic, body, acked = topic_of(size), b"x" * size, [0]

    def called(error: object, message: Message) -> None:
        if error is None:
            acked[0] += 1

    def send(number: int) -> None:
        for _ in range(number):
            while True:
                try:
                    producer.produce(topic, body, callback=called)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush(WAIT_S)

    return measured(send, acked, count)


def poll_ours(address: str, size: int, count: int) -> dict[str, float]:
    from rmq import PullConsumer

    seen = [0]
    with PullConsumer("bench-client", namesrv_addr=address, pull_batch_size=1_000) as consumer:
        queues = consumer.queues(topic_of(size))
        consumer.assign(queues)
        for queue in queues:
            consumer.seek_to_begin(queue)

        def poll(number: int) -> None:
            until = seen[0] + number
            while seen[0] < until:
                found = consumer.poll(POLL_S * 1000, POLL_MESSAGES)
                if not found or sum([len(message.body) for message in found]) != len(found) * size:
                    raise SystemExit(f"{len(found)} messages, not all of {size} bytes")
                seen[0] += len(found)

        return measured(poll, seen, count)


def poll_confluent(address: str, size: int, count: int) -> dict[str, float]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    seen = [0]
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench-client"})
    partitions = consumer.list_topics(topic_of(size), WAIT_S).topics[topic_of(size)].partitions
    consumer.assign([TopicPartition(topic_of(size), each, OFFSET_BEGINNING) for each in partitions])

    def poll(number: int) -> None:
        until = seen[0] + number
        while seen[0] < until:
            found = consumer.consume(POLL_MESSAGES, POLL_S)
            if not found or sum([len(message.value()) for message in found]) != len(found) * size:
                raise SystemExit(f"{len(found)} messages, not all of {size} bytes")
            seen[0] += len(found)

    try:
        return measured(poll, seen, count)
    finally:
        consumer.close()


if __name__ == "__main__":
    work, which, address, size, count = sys.argv[1:6]
    run = {
        ("send", "ours"): send_ours, ("send", "confluent"): send_confluent,
        ("poll", "ours"): poll_ours, ("poll", "confluent"): poll_confluent,
    }[work, which]  # fmt: skip
    print(json.dumps(run(address, int(size), int(count))))
