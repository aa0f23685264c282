"""One measured run of a Python client, in a process of its own; prints one line of JSON.

    python bench/client_worker.py ours 127.0.0.1:9876 128 1000000
    python bench/client_worker.py confluent 127.0.0.1:9092 128 1000000

Sends COUNT messages of SIZE bytes with a callback for each, which counts it; a tenth of them first,
not measured. CPU is this process' (all its threads), from before the first send to after the last
callback. Both clients gather for 5 ms.
"""

import json
import resource
import sys
import time
from collections.abc import Callable

LINGER_MS = 5
WAIT_S = 60


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(send: Callable[[int], None], acked: list[int], count: int) -> dict[str, float]:
    """send(n) sends n messages and returns when all callbacks have been called."""
    send(count // 10)
    acked[0] = 0
    cpu, began = cpu_seconds(), time.perf_counter()
    send(count)
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    if acked[0] != count:
        raise SystemExit(f"{acked[0]} of {count} messages were acknowledged")
    return {"rate": count / seconds, "cpu_per_million": cpu / count * 1e6}


def ours(address: str, size: int, count: int) -> dict[str, float]:
    from rmq import Admin, Message, Producer, SendResult

    with Admin(namesrv_addr=address) as admin:
        admin.create_topic("bench-client", 4)
    body, acked = b"x" * size, [0]

    def called(result: SendResult | None, error: Exception | None) -> None:
        if error is None:
            acked[0] += 1

    with Producer(
        "bench-client", namesrv_addr=address, auto_batch=True, batch_max_delay_ms=LINGER_MS
    ) as producer:

        def send(number: int) -> None:
            send_async = producer.send_async
            for _ in range(number):
                send_async(Message("bench-client", body), called)
            producer.flush(WAIT_S * 1000)

        return measured(send, acked, count)


def confluent(address: str, size: int, count: int) -> dict[str, float]:
    from confluent_kafka import Message, Producer

    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": LINGER_MS, "acks": 1,
         "queue.buffering.max.messages": 100_000}
    )  # fmt: skip
    body, acked = b"x" * size, [0]

    def called(error: object, message: Message) -> None:
        if error is None:
            acked[0] += 1

    def send(number: int) -> None:
        for _ in range(number):
            while True:
                try:
                    producer.produce("bench-client", body, callback=called)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush(WAIT_S)

    return measured(send, acked, count)


if __name__ == "__main__":
    which, address, size, count = sys.argv[1:5]
    run = {"ours": ours, "confluent": confluent}[which]
    print(json.dumps(run(address, int(size), int(count))))
