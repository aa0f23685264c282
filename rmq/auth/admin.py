"""Admin: the requests that make, change, show and delete users and their ACLs.

    3001 createUser   3002 updateUser   3003 deleteUser   3004 getUser   3005 listUser
    3006 createAcl    3007 updateAcl    3008 deleteAcl    3009 getAcl    3010 listAcl

The gate decides whether a user may send these requests at all. Here is checked what only Super
users may do: touch Super users, and read passwords, the latter only over a connection on which
nobody can listen. Answers are RocketMQ's: a question about a missing user is answered with success
and no body.

Example: 3001 username=alice {"password":"secret"} is answered 0, and alice is on the disk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from rmq.auth.account_store import AccountStore, Change
from rmq.auth.accounts import SUBJECT_PREFIX, subject_name
from rmq.auth.authorization import address
from rmq.auth.policy import Acl
from rmq.auth.user import User
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.errors import ProtocolError, StoreError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.format.signature import without_asker
from rmq.refusal import Refusal

ANSWER_BYTES_MAX = 15 << 20


class Asker(msgspec.Struct, frozen=True):
    """Who has sent a request, as the gate has found."""

    user: User | None  # None: no account was required
    peer: str  # host:port
    code: int = 0  # the request code

    @property
    def is_bound(self) -> bool:
        """Whether the user's policies limit what it may do."""
        return self.user is not None and not self.user.is_super

    @property
    def is_super(self) -> bool:
        return self.user is not None and self.user.is_super

    @property
    def may_see_passwords(self) -> bool:
        source = address(self.peer)
        return self.is_super and source is not None and source.is_loopback


Handler = Callable[[AccountStore, Command, Asker], Awaitable[Command]]


async def answer(store: AccountStore, request: Command, asker: Asker) -> Command:
    """Serves a request; Refusal, ProtocolError or StoreError if it is not done."""
    try:
        return await HANDLERS[request.code](store, request, asker)
    except OSError as error:
        raise StoreError(f"the accounts cannot be written: {error.strerror}") from None


# ---- users


async def _create_user(store: AccountStore, request: Command, asker: Asker) -> Command:
    name, members = request.text_field("username") or "", _body(request)
    await _change(store, request, lambda it: it.create_user(name, members, asker.is_super))
    return request.reply()


async def _update_user(store: AccountStore, request: Command, asker: Asker) -> Command:
    name, members = request.text_field("username") or "", _body(request)
    await _change(store, request, lambda it: it.update_user(name, members, asker.is_super))
    return request.reply()


async def _delete_user(store: AccountStore, request: Command, asker: Asker) -> Command:
    name = request.require("username")
    await _change(store, request, lambda it: it.delete_user(name, asker.is_super))
    return request.reply()


async def _get_user(store: AccountStore, request: Command, asker: Asker) -> Command:
    user = store.accounts.user(request.require("username"))
    return _shown(request, None if user is None else _members(user, asker))


async def _list_users(store: AccountStore, request: Command, asker: Asker) -> Command:
    found = store.accounts.users(request.text_field("filter") or "")
    return _shown(request, [_members(user, asker) for user in found])


def _members(user: User, asker: Asker) -> dict[str, str]:
    members = user.members()
    if not asker.may_see_passwords:
        del members["password"]
    return members


# ---- ACLs


async def _put_acl(store: AccountStore, request: Command, asker: Asker) -> Command:
    subject, policies = request.require("subject"), _body(request).get("policies")
    await _change(store, request, lambda it: it.put_acl(subject, policies, asker.user))
    return request.reply()


async def _delete_acl(store: AccountStore, request: Command, asker: Asker) -> Command:
    subject = request.require("subject")
    kind, resource = request.text_field("policyType"), request.text_field("resource")
    await _change(store, request, lambda it: it.delete_acl(subject, kind, resource, asker.user))
    return request.reply()


async def _get_acl(store: AccountStore, request: Command, asker: Asker) -> Command:
    subject = request.require("subject")
    acl = store.accounts.acl(subject_name(subject))
    return _shown(request, None if acl.is_empty else _acl_members(subject, acl))


async def _list_acls(store: AccountStore, request: Command, asker: Asker) -> Command:
    subject = request.text_field("subjectFilter") or ""
    found = store.accounts.acls(subject, request.text_field("resourceFilter") or "")
    return _shown(request, [_acl_members(name, acl) for name, acl in found])


def _acl_members(subject: str, acl: Acl) -> dict[str, Any]:
    assert subject.startswith(SUBJECT_PREFIX)
    return {"subject": subject, "policies": acl.members()}


# ---- requests and answers


async def _change(store: AccountStore, request: Command, change: Change) -> None:
    await store.change(_asked(request), change)


def _asked(request: Command) -> bytes:
    """The request without its asker, so that it is the same at every server."""
    members = (request.code, sorted(without_asker(request.fields).items()), request.body)
    return msgspec.json.encode(members)


def _body(request: Command) -> Mapping[Any, Any]:
    return fastjson.request_object(request.body) if request.body else {}


def _shown(request: Command, content: Any) -> Command:
    if not content:
        return request.reply()
    body = msgspec.json.encode(content)
    if len(body) > ANSWER_BYTES_MAX:
        raise ProtocolError(f"{len(body)} bytes: more than an answer has; ask for a part of them")
    return request.reply(body=body)


HANDLERS: dict[int, Handler] = {
    Code.AUTH_CREATE_USER: _create_user,
    Code.AUTH_UPDATE_USER: _update_user,
    Code.AUTH_DELETE_USER: _delete_user,
    Code.AUTH_GET_USER: _get_user,
    Code.AUTH_LIST_USER: _list_users,
    Code.AUTH_CREATE_ACL: _put_acl,
    Code.AUTH_UPDATE_ACL: _put_acl,
    Code.AUTH_DELETE_ACL: _delete_acl,
    Code.AUTH_GET_ACL: _get_acl,
    Code.AUTH_LIST_ACL: _list_acls,
}


def not_served(request: Command) -> Refusal:
    """The refusal of a server without accounts."""
    return Refusal(
        ResponseCode.SYSTEM_ERROR,
        f"request {request.code}: accounts are not in use here; start with "
        "authenticationEnabled=true and initAuthenticationUser",
    )
