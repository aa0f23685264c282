"""etcd: the part of its JSON interface (etcd 3.4 and later) that the controller needs.

    etcd = Etcd(("http://h1:2379", "http://h2:2379"))
    lease = await etcd.grant(3)                     seconds; keep_alive(lease) prolongs it
    result = await etcd.transaction(
        compare=[created(b"leader", 0)],            if this does not hold, `otherwise` is done
        then=[put(b"leader", b"me", lease)],
        otherwise=[get(b"leader")],
    )
    result.succeeded, result.revision, result.found[0]

Each call goes to the endpoint that answered last, and to the next ones when it does not answer. A
call that changes something may then be done twice, or be done although its answer was lost;
compared revisions make that harmless. Bytes are base64 on the wire, and 64 bit numbers are text.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypeVar

import httpx
import msgspec

from rmq.controller.state_store import StateStoreError

ANSWER_BYTES_MAX = 16 << 20
LEASE_OVER = "requested lease not found"  # the text of etcd 3.4 and later

T = TypeVar("T")


class KeyValue(msgspec.Struct, frozen=True):
    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int  # under which the key exists; 0: it stays


class Result(msgspec.Struct, frozen=True):
    """`found`: the results of each get() of the branch that ran. `revision`: that of the store at
    that moment."""

    succeeded: bool
    revision: int
    found: list[list[KeyValue]]


# ------------------------------------------------------------------- parts of a transaction

Step = dict[str, Any]


def created(key: bytes, revision: int) -> Step:
    """Compares: the key was created by that revision; 0: the key does not exist."""
    return {"key": _text(key), "target": "CREATE", "result": "EQUAL",
            "create_revision": str(revision)}  # fmt: skip


def changed(key: bytes, revision: int) -> Step:
    """Compares: the key was last changed by that revision; 0: the key does not exist."""
    return {"key": _text(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def get(key: bytes, *, prefix: bool = False) -> Step:
    request = {"key": _text(key)}
    if prefix:
        request["range_end"] = _text(key[:-1] + bytes((key[-1] + 1,)))
    return {"request_range": request}


def put(key: bytes, value: bytes, lease: int = 0) -> Step:
    return {"request_put": {"key": _text(key), "value": _text(value), "lease": str(lease)}}


def delete(key: bytes) -> Step:
    return {"request_delete_range": {"key": _text(key)}}


# ------------------------------------------------------------------- the parts of answers in use


class _KeyValue(msgspec.Struct):
    lease: int = 0
    key: bytes = b""  # msgspec reads base64
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0


class _Range(msgspec.Struct):
    kvs: list[_KeyValue] = []


class _Response(msgspec.Struct):
    response_range: _Range | None = None


class _Header(msgspec.Struct):
    revision: int = 0


class _Transaction(msgspec.Struct):
    header: _Header
    succeeded: bool = False
    responses: list[_Response] = []


class _Grant(msgspec.Struct):
    ID: int = 0
    TTL: int = 0
    error: str = ""


class _KeepAlive(msgspec.Struct):
    result: _Grant


class LeaseOverError(StateStoreError):
    """A key was to be put under a lease that etcd does not know any more."""


class Etcd:
    """Owned by one event loop. All calls raise StateStoreError when no endpoint answers in time."""

    def __init__(self, endpoints: Sequence[str], timeout_s: float = 2.0) -> None:
        self._endpoints = list(endpoints)
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(timeout=timeout_s, trust_env=False)

    def beside(self) -> Etcd:
        """Another client of the same etcd, with connections of its own, so that its calls do not
        wait for those of this client, of which up to 100 run at a time."""
        return Etcd(self._endpoints, self._timeout_s)

    async def close(self) -> None:
        await self._client.aclose()

    async def transaction(
        self, compare: list[Step], then: list[Step], otherwise: list[Step] | None = None
    ) -> Result:
        asked = {"compare": compare, "success": then, "failure": otherwise or []}
        answer = await self._ask("/v3/kv/txn", asked, _Transaction)
        found = [
            [KeyValue(each.key, each.value, each.create_revision, each.mod_revision, each.lease)
             for each in response.response_range.kvs]
            for response in answer.responses
            if response.response_range is not None
        ]  # fmt: skip
        return Result(answer.succeeded, answer.header.revision, found)

    async def grant(self, seconds: int) -> int:
        """The id of a new lease; keys put under it are removed when it is not kept alive."""
        answer = await self._ask("/v3/lease/grant", {"TTL": str(seconds)}, _Grant)
        if answer.error or not answer.ID:
            raise StateStoreError(f"etcd grants no lease: {answer.error or 'it names no id'}")
        return answer.ID

    async def keep_alive(self, lease: int) -> bool:
        """Prolongs the lease once; False when it is over."""
        answer = await self._ask("/v3/lease/keepalive", {"ID": str(lease)}, _KeepAlive)
        return answer.result.TTL > 0

    async def revoke(self, lease: int) -> None:
        await self._ask("/v3/lease/revoke", {"ID": str(lease)}, dict)

    async def _ask(self, path: str, request: dict[str, Any], kind: type[T]) -> T:
        reasons = []
        for endpoint in list(self._endpoints):
            try:
                return await self._ask_one(endpoint + path, request, kind)
            except LeaseOverError:
                raise
            except (httpx.HTTPError, StateStoreError, msgspec.MsgspecError) as error:
                reasons.append(f"{endpoint}: {error or type(error).__name__}")
            if self._endpoints[0] == endpoint:  # else another call has already moved on
                self._endpoints.append(self._endpoints.pop(0))
        raise StateStoreError("etcd does not answer: " + "; ".join(reasons))

    async def _ask_one(self, url: str, request: dict[str, Any], kind: type[T]) -> T:
        body = msgspec.json.encode(request)
        answer = await self._client.post(url, content=body)
        if answer.status_code != 200:
            if LEASE_OVER in answer.text:
                raise LeaseOverError("etcd: the lease is over")
            raise StateStoreError(f"status {answer.status_code}, {answer.text[:200]!r}")
        if len(answer.content) > ANSWER_BYTES_MAX:
            raise StateStoreError(f"an answer of {len(answer.content)} bytes")
        return msgspec.json.decode(answer.content, type=kind, strict=False)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
