"""Refusals: which pages look again by themselves after they were refused, and which do not.

Method: a console over a socket whose name server says what a test wants. Cannot show: that a
browser looks again (tests/process/test_console_browser.py).
"""

from __future__ import annotations

import html
from collections.abc import Iterator

import pytest
from support.console import LOOKS_AGAIN, Browser, served_console, text_of
from support.passage import EMPTIED
from support.scripted_peer import ScriptedPeer

from rmq.codes import RequestCode, ResponseCode
from rmq.console.settings import ConsoleSettings


@pytest.fixture(scope="module")
def namesrv() -> Iterator[ScriptedPeer]:
    with ScriptedPeer(EMPTIED) as peer:
        yield peer


@pytest.fixture(scope="module")
def console(namesrv: ScriptedPeer) -> Iterator[Browser]:
    with served_console(ConsoleSettings(namesrv.address)) as browser:
        yield browser


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/topic?topic=t", "No topic route"),
        ("/topic/delete?topic=t", "No topic route"),
        ("/messages?topic=t", "No topic route"),
        ("/messages/tail?topic=t", "No topic route"),
        ("/dead-letters/group?group=g", "group g has no dead letters"),
        ("/broker?name=b", "no broker b is registered"),
    ],
)
def test_what_a_name_server_does_not_know_yet_is_looked_for_again(
    console: Browser, path: str, why: str
) -> None:
    answer = console.client.get(path)
    assert answer.status_code == 404
    assert why in text_of(answer.text)
    found = LOOKS_AGAIN.search(answer.text)
    assert found is not None
    assert html.unescape(found[1]) == path


@pytest.mark.parametrize("path", ["/nothing", "/message?topic=t&broker=b&queue=x&offset=0"])
def test_what_will_not_come_is_not_looked_for(console: Browser, path: str) -> None:
    answer = console.client.get(path)
    assert answer.status_code == 404
    assert LOOKS_AGAIN.search(answer.text) is None


def test_a_page_that_draws_itself_anew_goes_on_whatever_it_is_answered(
    console: Browser, namesrv: ScriptedPeer
) -> None:
    """A server that starts refuses what it will answer in a moment."""
    namesrv.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda request: request.reply(
        ResponseCode.SYSTEM_ERROR, "not now"
    )
    for headers, looks_again in (({}, False), ({"HX-Request": "true"}, True)):
        answer = console.get("/topic", headers, topic="starting")
        assert answer.status_code == 502
        assert "not now" in text_of(answer.text)
        assert (LOOKS_AGAIN.search(answer.text) is not None) == looks_again
