"""Frame maker: frames by seed, from correct to hostile, each with the reaction that it must cause.

    maker = FrameMaker(7)
    made = maker.frame()
    made.bytes, made.opaque, made.answer, made.closes

    FrameMaker(7, [Credentials("alice", "secret")])     most are signed by one of these

The reaction follows from the codec's own verdict on the bytes as they were sent (cext/wire, which
tests/contract compares with the codec in pure Python): a frame that cannot be read closes its
connection, a request gets one answer with its opaque, a one-way request and a response get none.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from support import wire_frames
from support.wire_frames import BINARY, JSON, OK, TOO_LARGE

from cext.testing.frame_probe import frame_found, header_parsed
from rmq.errors import ProtocolError
from rmq.format.remoting import Command, decode
from rmq.format.signature import ACCESS_KEY, SIGNATURE, Credentials

FRAME_MAX = 16 << 20
HOSTILE_TEXTS = [
    "", "-1", "0", "1", "4", "32767", "32768", "2147483647", "2147483648", "-2147483648",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1" * 40, "+", "-", "1e5",
    "0x10", " 1", "true", "null", "NaN", "*", "a || b", "||", "x" * 300, "\x01", "\x02", "\x00",
    "TAGS\x01a\x02", "DELAY\x011\x02", "DELAY\x0199\x02",
    "PGROUP\x01p\x02TRAN_MSG\x01true\x02", "WAIT\x01false\x02", "K\x01v", "\x01\x02\x01", "t",
    "auto1", "%RETRY%g", "\\", '"', "é中\U0001f600",
]  # fmt: skip
HOSTILE_I32 = [0, 1, 4, 7, 8, 21, 0x7F, 0x7FFF, 0x8000, 0xFFFF, 0xFFFFFF, 0x1000000, 0x7FFFFFFF,
               0x80000000, 0xFFFFFFFF]  # fmt: skip


class Due(Enum):
    """Whether something must happen."""

    NEVER = 0
    ALWAYS = 1
    MAYBE = 2


@dataclass(frozen=True)
class Made:
    bytes: bytes
    opaque: int
    answer: Due
    closes: Due
    command: Command | None = None  # the request as it was sent, if it must be answered


class FrameMaker:
    def __init__(self, seed: int, signers: Sequence[Credentials] = ()) -> None:
        self.random = random.Random(seed)
        self.signers = signers
        self.opaque = 0

    def good(self) -> bytes:
        """A frame as clients send it, with an opaque of its own."""
        choose = self.random
        self.opaque += 1
        code = choose.choice([10, 310, 310, 310, 320, 11, 11, 361, 34, 999])
        kind = choose.choice([JSON, JSON, BINARY])
        body = choose.randbytes(choose.randrange(1, 60))
        topic = choose.choice(["t", "t", "t", "t", f"auto{choose.randrange(3)}", "unknown"])
        fields: dict[str, object] = {}
        if code in (11, 361):
            body = b""
            offset = choose.randrange(60)
            if choose.random() < 0.2:
                topic, offset = "empty", 0
            fields = {
                **wire_frames.PULL_FIELDS, "consumerGroup": "g", "topic": topic,
                "queueId": choose.randrange(4), "queueOffset": offset,
                "subVersion": 1, "sysFlag": choose.choice([0, 1, 2, 3, 4, 6]),
                "suspendTimeoutMillis": choose.choice([0, 20, 15000]),
            }  # fmt: skip
            if choose.random() < 0.3:
                fields["subscription"] = choose.choice(["*", "a", "a || b", "", "a||||b"])
        elif code in (10, 310, 320):
            fields = {**wire_frames.SEND_V2_FIELDS, "b": topic, "e": choose.randrange(4)}
            if choose.random() < 0.5:
                fields["i"] = choose.choice(
                    [
                        "TAGS\x01a\x02",
                        "KEYS\x01k\x02TAGS\x01b\x02",
                        "",
                        "W",
                        "DELAY\x011\x02",
                        "DELAY\x012\x02TAGS\x01b\x02",
                    ]
                )
            if code == 320:
                fields["m"] = "true"
                body = self.batch()
            if code == 10:
                fields = {wire_frames.LONG_NAMES[name]: value for name, value in fields.items()}
        if choose.random() < 0.2 and fields:
            for _ in range(choose.randrange(1, 3)):
                fields[choose.choice(list(fields))] = choose.choice(HOSTILE_TEXTS)
        if choose.random() < 0.01:
            fields.update({f"more{n}": n for n in range(70)})
        if self.signers and choose.random() < 0.95:
            fields = self.signed(fields, body)
        flag = choose.choice([0] * 8 + [1, 2])
        if kind == JSON:
            header = wire_frames.json_header(code, fields, opaque=self.opaque, flag=flag)
        else:
            texts = {name: str(value) for name, value in fields.items()}
            header = wire_frames.binary_header(code, texts, opaque=self.opaque, flag=flag)
        return wire_frames.frame(header, body, kind)

    def signed(self, fields: dict[str, object], body: bytes) -> dict[str, object]:
        """Signs the fields, one in twenty wrongly. The fields of the signature are inserted last or
        anywhere among the others."""
        choose = self.random
        texts = {name: str(value) for name, value in fields.items()}
        signed = choose.choice(self.signers).sign(texts, body)
        if choose.random() < 0.05:
            signed[choose.choice((ACCESS_KEY, SIGNATURE))] = choose.choice(HOSTILE_TEXTS)
        proofs = [(name, signed.pop(name)) for name in (ACCESS_KEY, SIGNATURE)]
        members: list[tuple[str, object]] = [(name, fields.get(name, signed[name]))
                                             for name in signed]  # fmt: skip
        for proof in proofs:
            at = choose.choice((len(members), choose.randrange(len(members) + 1)))
            members.insert(at, proof)
        return dict(members)

    def batch(self) -> bytes:
        choose = self.random
        packed = wire_frames.batch_body(
            [
                (0, choose.randbytes(choose.randrange(1, 30)), b"")
                for _ in range(choose.randrange(4))
            ]
        )
        return self.mangled(packed) if choose.random() < 0.2 and packed else packed

    def mangled(self, data: bytes) -> bytes:
        """Changes, leaves out or inserts a few bytes, or puts in a hostile number."""
        choose, out = self.random, bytearray(data)
        for _ in range(choose.choice([1, 1, 1, 2, 5])):
            at = choose.randrange(len(out)) if out else 0
            kind = choose.randrange(6)
            if kind == 0 and out:
                out[at] ^= 1 << choose.randrange(8)
            elif kind == 1 and out:
                out[at] = choose.choice(b'"\\{}[]:,\0\x01\x7f\xff')
            elif kind == 2:
                del out[at : at + choose.randrange(1, 9)]
            elif kind == 3:
                out[at:at] = choose.randbytes(choose.randrange(1, 9))
            elif kind == 4:
                out[at : at + 4] = struct.pack(">I", choose.choice(HOSTILE_I32))
            else:
                out[at:at] = out[max(0, at - 20) : at]
        return bytes(out)

    def frame(self, hostile: float = 0.3) -> Made:
        """The next frame; `hostile` is the share of those with a mangled header or length."""
        data = self.good()
        fate = self.random.random()
        if fate < hostile * 0.9:
            mark = int.from_bytes(data[4:8], "big")
            size = mark & 0xFFFFFF
            header = self.mangled(data[8 : 8 + size])
            data = wire_frames.frame(header, data[8 + size :], mark >> 24)
        elif fate < hostile:
            at = self.random.choice([0, 4])
            number = struct.pack(">I", self.random.choice(HOSTILE_I32))
            data = data[:at] + number + data[at + 4 :]
        return self.judged(data)

    def judged(self, data: bytes) -> Made:
        found = frame_found(data, FRAME_MAX)
        if found["status"] != OK or found["total_bytes"] != len(data):
            # Too few bytes: the server waits for more. Too many: the rest begins another frame. So
            # any reaction is right.
            sure = found["status"] not in (OK, -1)
            return Made(data, 0, Due.MAYBE, Due.ALWAYS if sure else Due.MAYBE)
        header = header_parsed(found["header"], found["serialize_type"])
        if header["status"] == TOO_LARGE:
            return Made(data, self.opaque, Due.MAYBE, Due.MAYBE)
        if header["status"] != OK:
            return Made(data, 0, Due.NEVER, Due.ALWAYS)
        silent = header["flag"] & 3
        try:
            command = decode(data[4:])
        except ProtocolError:  # control closes the connection, if the frame gets to it
            return Made(data, header["opaque"], Due.MAYBE, Due.MAYBE)
        if silent:
            return Made(data, header["opaque"], Due.NEVER, Due.NEVER)
        return Made(data, header["opaque"], Due.ALWAYS, Due.NEVER, command)
