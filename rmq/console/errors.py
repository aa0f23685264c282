"""Errors: what a page says when brokers refuse or do not answer, and what helps.

    explained(error).status, .text, .remedy

When brokers want an account and the browser is not logged in, it is sent to the login. When brokers
do not answer, the page says so, and draws itself anew until they are back. So it does when a topic,
a group or a broker is not there: a name server that was started again does not know them before
their brokers have registered.
"""

from __future__ import annotations

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rmq.codes import ResponseCode
from rmq.console import journal
from rmq.console.console import console_of
from rmq.console.gate import login_first
from rmq.console.page import refusal_page
from rmq.errors import RemoteError, RmqError, UnreachableError
from rmq.operations.askers import is_unknown_asker

# Remedies for refusals of an account, by the end of the server's text (all are in rmq/errors.py).
NOT_ALLOWED = {
    "no matched policies.": "Whoever is Super can allow it to this account, under Accounts.",
    "the decision is deny.": "An entry forbids it to this account: see Accounts.",
}
NOT_THERE = (
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ResponseCode.BROKER_NOT_EXIST,
)


class Explained(msgspec.Struct):
    status: int
    text: str
    remedy: str = ""
    is_lost: bool = False  # brokers do not answer
    may_pass: bool = False  # the answer may be another one soon


def explained(error: RmqError) -> Explained:
    if isinstance(error, UnreachableError):
        return Explained(503, str(error), is_lost=True, may_pass=True)
    if isinstance(error, RemoteError):
        if (remedy := error.of_access(NOT_ALLOWED)) is not None:
            return Explained(403, error.remark.strip(), remedy)
        may_come = error.code in NOT_THERE
        status = 404 if may_come or error.code == ResponseCode.QUERY_NOT_FOUND else 502
        return Explained(status, error.remark.strip(), may_pass=may_come)
    return Explained(400, str(error))


async def on_rmq_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RmqError)
    console = console_of(request)
    if is_unknown_asker(error) and not console.settings.password:
        console.sessions.end(request.state.cookie)
        request.state.session = None
        return login_first(request)
    said = explained(error)
    if said.status == 403:
        journal.refused(request, said.text)
    return refusal_page(
        request, said.status, said.text, said.remedy, is_lost=said.is_lost, may_pass=said.may_pass
    )


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = "There is no such page." if error.status_code == 404 else str(error.detail)
    return refusal_page(request, error.status_code, text)
