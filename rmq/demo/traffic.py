"""Traffic: a producer and a consumer that count, which shows lost messages and repeated ones.

    traffic = Traffic("127.0.0.1:23876")
    traffic.start()
    traffic.sent, traffic.received, traffic.twice, traffic.on_the_way()

Messages are numbers, sent one after the other. A number counts as sent when its SEND_OK has come. A
number that was refused, or not answered, is sent again, and so may be received twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmq.errors import RmqError
from rmq.system.held_signals import held_signals

if TYPE_CHECKING:
    from rmq.client.parameters.keywords import ClientKeywords

TOPIC = "demo"
PACE_S = 0.002  # between two sends
TIMEOUT_MS = 1000
ROUTES_MS = 200  # between two looks at the routes: clients of one broker name wait for that
PERSIST_MS = 5000  # between two commits of the consumer
GAP_S = 0.1  # the shortest interval between two SEND_OK that counts as a gap


class Traffic:
    """Each count is written by one thread, and read by any. The main thread starts and stops the
    traffic; signals are held while it uses what it shares with the sender, such as an Event."""

    def __init__(
        self, namesrv: str, routes_ms: int = ROUTES_MS, authority: Path | None = None,
        persist_ms: int = PERSIST_MS,
    ) -> None:  # fmt: skip
        """authority: servers use TLS, with certificates that this authority has signed."""
        self._where: ClientKeywords = {
            "namesrv_addr": namesrv, "poll_name_server_interval": routes_ms,
            "persist_consumer_offset_interval": persist_ms,
        }  # fmt: skip
        if authority is not None:
            self._where |= {"use_tls": True, "tls_ca_file": str(authority)}
        self.sent = 0  # numbers below it are acknowledged
        self.received = 0  # different numbers
        self.twice = 0  # deliveries of numbers that were received already
        self.refused = 0  # attempts
        self.began_s = 0.0
        self.last_error = ""
        self.last_sent_s = time.monotonic()
        self.gaps: deque[tuple[float, float]] = deque(maxlen=64)  # (when it ended, seconds)
        self._seen = bytearray()
        self._lock = threading.Lock()
        self._stops = threading.Event()
        self._sender: threading.Thread | None = None
        self._consumer: Any = None

    def start(self) -> None:
        from rmq import PushConsumer

        logging.getLogger("rmq").addHandler(logging.NullHandler())  # refusals are told as gaps

        self.began_s = time.monotonic()
        self._consumer = PushConsumer(
            "demo-consumer", self._take, consume_message_batch_max_size=32,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET", **self._where,
        )  # fmt: skip
        self._consumer.subscribe(TOPIC, "*")
        self._consumer.start()
        sender = threading.Thread(target=self._send, name="demo-producer", daemon=True)
        with held_signals():
            sender.start()
            self._sender = sender

    def stop_sending(self) -> None:
        """Stops the sender. Returns when the last number was acknowledged, or given up."""
        with held_signals():
            self._stops.set()
        if self._sender is not None:
            self._sender.join()

    def close(self) -> None:
        self.stop_sending()
        if self._consumer is not None:
            self._consumer.close()

    def on_the_way(self) -> int:
        """How many numbers are acknowledged and not received yet."""
        with self._lock:
            seen = self._seen[: self.sent].count(1)
        return self.sent - seen

    # ---- threads

    def _send(self) -> None:
        from rmq import Message, Producer

        with Producer(
            "demo-producer", send_msg_timeout=TIMEOUT_MS, **self._where,
        ) as producer:  # fmt: skip
            self.last_sent_s = time.monotonic()
            while not self._stops.is_set():
                try:
                    result = producer.send(Message(TOPIC, str(self.sent)))
                    is_ok, self.last_error = result.is_ok, str(result.status)
                except RmqError as error:
                    is_ok, self.last_error = False, str(error)
                if is_ok:
                    self._acknowledged()
                else:
                    self.refused += 1
                self._stops.wait(PACE_S)

    def _acknowledged(self) -> None:
        now = time.monotonic()
        if now - self.last_sent_s >= GAP_S:
            self.gaps.append((now, now - self.last_sent_s))
        self.sent, self.last_sent_s = self.sent + 1, now

    def _take(self, messages: Any, _: object) -> None:
        with self._lock:
            for message in messages:
                number = int(message.body)
                if number >= len(self._seen):
                    self._seen += bytes(number + 1 - len(self._seen))
                if self._seen[number]:
                    self.twice += 1
                else:
                    self._seen[number] = 1
                    self.received += 1
