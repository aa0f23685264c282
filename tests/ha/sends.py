"""Sends: sends messages once, and writes down the outcome.

send(setting, Sending(message="c0/17", topic="t"), partial(producer.send, message))
"""

from __future__ import annotations

import random
from collections.abc import Callable

from rmq import RemoteError, RmqError, SendResult
from rmq.format.message import decode_message_id
from tests.ha.history import Refused, Sending, Stored, Unknown
from tests.ha.setting import Setting


def send(setting: Setting, sending: Sending, call: Callable[[], SendResult]) -> SendResult | None:
    """Sends once and writes down the outcome. Returns the answer if it was SEND_OK."""
    setting.history.add(sending)
    try:
        result = call()
    except RemoteError as error:
        setting.history.add(Refused(message=sending.message, reason=str(error)))
    except RmqError as error:
        setting.history.add(Unknown(message=sending.message, reason=str(error)))
    else:
        if result.is_ok:
            setting.history.add(stored(sending, result))
            return result
        setting.history.add(Unknown(message=sending.message, reason=result.status))
    return None


def stored(sending: Sending, result: SendResult) -> Stored:
    (address, port), log_offset = decode_message_id(result.offset_message_id)
    found = Stored(
        message=sending.message, topic=sending.topic, broker=result.broker_name,
        queue_id=result.queue_id, log_offset=log_offset, acker=f"{address}:{port}",
    )  # fmt: skip
    if sending.kind in ("plain", "ordered"):
        found.offset = result.queue_offset
    return found


def send_batch(
    setting: Setting, sendings: list[Sending], call: Callable[[], list[SendResult]]
) -> bool:
    """Sends once and writes down the outcome for each message. Returns whether all were
    answered SEND_OK."""
    for each in sendings:
        setting.history.add(each)
    try:
        results = call()
    except RmqError as error:
        outcome: type[Refused | Unknown] = Refused if isinstance(error, RemoteError) else Unknown
        for each in sendings:
            setting.history.add(outcome(message=each.message, reason=str(error)))
        return False
    for each, result in zip(sendings, results, strict=True):
        if result.is_ok:
            setting.history.add(stored(each, result))
        else:
            setting.history.add(Unknown(message=each.message, reason=result.status))
    return all(result.is_ok for result in results)


def body(name: str, maker: random.Random) -> bytes:
    return f"{name} {'.' * maker.choice((0, 30, 200, 700, 3000))}".encode()
