"""Ack counter: an rpc_hook that counts a client's acks, requests by code and their messages."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections import Counter

from cext.client.reply import Reply
from rmq.codes import RequestCode

SINGLE, BATCH = int(RequestCode.ACK_MESSAGE), int(RequestCode.BATCH_ACK_MESSAGE)


class AckCounter:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.codes: Counter[int] = Counter()
        self.messages = 0
        self.refused = 0

    def before_request(self, address: str, code: int, fields: dict[str, str], body: bytes) -> None:
        with self._lock:
            self.codes[code] += 1
            if code == SINGLE:
                self.messages += 1
            elif code == BATCH:
                for row in json.loads(body)["acks"]:
                    bits = int.from_bytes(b64decode(row["b"]), "little")
                    self.messages += bits.bit_count()

    def after_response(
        self, address: str, code: int, fields: dict[str, str], reply: Reply | None
    ) -> None:
        if code in (SINGLE, BATCH):
            with self._lock:
                self.refused += reply is None or reply.code != 0

    @property
    def requests(self) -> int:
        return self.codes[SINGLE] + self.codes[BATCH]
