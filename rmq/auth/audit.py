"""Audit: logs who asked this server for what, from where, and whether it was allowed.

    refused    at INFO, one line per user, request and address in ten seconds, with how many more
    allowed    at INFO if it changes something: topics, groups, offsets, settings, accounts. Other
               requests, and those by which servers report at intervals, at DEBUG

    allowed: request 17 (UPDATE_AND_CREATE_TOPIC) of 'alice' from 10.0.0.1:4711: Create Topic:orders
    refused: request 310 (SEND_MESSAGE_V2) of 'bob' from 10.0.0.2:4711: check signature failed.

Lines go to the logger rmq.audit (rmq/logs.py says where that writes), whose JSON has each part as a
field of its own. From the request they contain only names of resources, users and settings, and no
values: so no line holds a password.
"""

from __future__ import annotations

import logging

from rmq import java_properties
from rmq.auth.authorization import Wanted
from rmq.auth.policy import Action
from rmq.base.audit_file import LOGGER
from rmq.base.rate_limited_log import RateLimitedLog
from rmq.codes import REQUEST_CODES
from rmq.codes import RequestCode as Code
from rmq.errors import ConfigError
from rmq.format.remoting import Command

log = logging.getLogger(LOGGER)
quiet = RateLimitedLog(log)

NAME_SHOWN = 64  # characters of a name that nobody has checked
TEXT_SHOWN = 512  # characters of all other texts that come from a client
RESOURCES_SHOWN = 3

_CHANGES = frozenset((Action.CREATE, Action.UPDATE, Action.DELETE))
_OF_SERVERS = frozenset(
    (
        Code.REGISTER_BROKER, Code.BROKER_HEARTBEAT, Code.REGISTER_TOPIC_IN_NAMESRV,
        Code.EXCHANGE_BROKER_HA_INFO, Code.NOTIFY_BROKER_ROLE_CHANGED,
        Code.NOTIFY_MIN_BROKER_ID_CHANGE, Code.CONTROLLER_REGISTER_BROKER,
        Code.CONTROLLER_ALTER_SYNC_STATE_SET, Code.QUERY_DATA_VERSION,
    )
)  # fmt: skip
_OF_SETTINGS = frozenset(
    (Code.UPDATE_BROKER_CONFIG, Code.UPDATE_NAMESRV_CONFIG, Code.UPDATE_CONTROLLER_CONFIG)
)


def refused(code: int, name: str, peer: str, text: str, *, known: bool) -> None:
    """Logs a refusal. name: the user that the request names; known: the signature is that user's.
    peer: host:port."""
    who = name if known else "?"  # so that strangers with many names cannot fill the log
    shown, text = plain(name, NAME_SHOWN), plain(text)
    quiet.log(
        logging.INFO,
        f"{who} {code} {peer.rpartition(':')[0]}",
        "refused: %s of %r from %s: %s", request(code), shown, peer, text,
        extra=_fields("refused", code, shown, peer) | {"reason": text},
    )  # fmt: skip


def allowed(
    code: int, name: str, by: str, peer: str, wanted: list[Wanted], about: str = ""
) -> None:
    """Logs that a request was let in; whether it is then done is another matter. name: the user,
    proved by "signature" or "certificate" (by); empty, with "address": anybody from that address is
    let in. about: as subject() returns it."""
    changes = [each for each in wanted if each.actions <= _CHANGES]
    level = logging.INFO if changes and code not in _OF_SERVERS else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    what = plain(resources(changes or wanted) + (f", {about}" if about else ""))
    log.log(
        level,
        "allowed: %s of %r from %s%s", request(code), name, peer, f": {what}" if what else "",
        extra=_fields("allowed", code, name, peer) | {"by": by, "resources": what},
    )  # fmt: skip


def subject(command: Command) -> str:
    """Which account a change of accounts is about, or the names of the settings that are changed.
    Empty: the resources say everything that may be logged."""
    if command.code in _OF_SETTINGS:
        try:
            return ", ".join(java_properties.parse(command.body.decode()))
        except (ConfigError, UnicodeDecodeError):
            return ""  # the request will be refused where its body is read
    return command.fields.get("username") or command.fields.get("subject") or ""


def plain(text: str, length: int = TEXT_SHOWN) -> str:
    """A text from a client, on one line and without characters that could imitate other lines."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:length])


def request(code: int) -> str:
    name = _name(code)
    return f"request {code} ({name})" if name else f"request {code}"


def resources(wanted: list[Wanted]) -> str:
    """A text like "Create Topic:a, Create Topic:b, Create Topic:c and 7 more"."""
    shown = [
        f"{'/'.join(sorted(action.value for action in each.actions))} {each.resource}"
        for each in wanted[:RESOURCES_SHOWN]
    ]
    more = len(wanted) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _fields(verdict: str, code: int, name: str, peer: str) -> dict[str, object]:
    return {"verdict": verdict, "user": name, "peer": peer, "code": code, "request": _name(code)}


def _name(code: int) -> str:
    return Code(code).name if code in REQUEST_CODES else ""
