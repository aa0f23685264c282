"""Role line: the role a controller gave a broker, for the broker's ready line.

    master of epoch 3
    slave 2 of 127.0.0.1:10911 (epoch 3)
    no role yet: the controller cannot be asked: nobody answers at 10.0.0.1:9878

A broker is ready once it has a role, or has waited ROLE_S for one. We ask it by a request, as
clients do (code 28), so that one process and shards are handled alike.
"""

from __future__ import annotations

import asyncio

from rmq.base import clock
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.observe.sample import Sample, decode
from rmq.serving.remoting_client import CallError, RemotingClient

ROLE_S = 5.0
POLL_S = 0.05
ANSWER_S = 1.0


async def role_line(served: list[tuple[str, str]]) -> str:
    """The roles of the given brokers, each a (name, address)."""
    texts = await asyncio.gather(*(_role(address) for _, address in served))
    if len(texts) == 1:
        return texts[0]
    return ", ".join(f"{name} {text}" for (name, _), text in zip(served, texts, strict=True))


def role_text(sample: Sample) -> str:
    """The role in words; empty if the broker has none yet."""
    if not sample.role or not sample.master_epoch:
        return ""
    if sample.role == "master":
        return f"master of epoch {sample.master_epoch}"
    if not sample.master_address:
        return ""
    return f"slave {sample.broker_id} of {sample.master_address} (epoch {sample.master_epoch})"


async def _role(address: str) -> str:
    until = clock.monotonic() + ROLE_S
    problem, said = "it does not say", ""
    while clock.monotonic() < until:
        try:
            sample = await _sample(address)
        except (CallError, ProtocolError, ValueError) as error:
            problem = str(error)
        else:
            if text := role_text(sample):
                return text
            said = sample.replication_problem or said  # tells more than a later error
        await asyncio.sleep(POLL_S)
    return f"no role yet: {said or problem}"


async def _sample(address: str) -> Sample:
    link = RemotingClient(address)
    try:
        request = Command(code=RequestCode.GET_BROKER_RUNTIME_INFO, fields={"rmqDetail": "brief"})
        reply = await link.call(request, ANSWER_S)
    finally:
        link.close()
    if reply.code != ResponseCode.SUCCESS:
        raise CallError(reply.remark or f"code {reply.code}")
    table = fastjson.loads_object(reply.body).get("table")
    text = table.get("rmqSample") if isinstance(table, dict) else None
    if not isinstance(text, str):
        raise ProtocolError(f"{address}: no sample in its runtime info")
    return decode(text)
