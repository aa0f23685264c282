"""Secret settings: what RocketMQ's brokers tell of them is on no page.

Method: a console over a socket, and a scripted peer that is its name server and its one broker.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

import pytest
from support.console import Browser, served_console, text_of
from support.scripted_peer import ScriptedPeer

from rmq.codes import RequestCode as Code
from rmq.config_table import MASK
from rmq.console.settings import ConsoleSettings
from rmq.format import fastjson

KEY, PASSWORD, NEW = "initAuthenticationUser", "top-secret-1", "top-secret-2"


@pytest.fixture(scope="module")
def console() -> Iterator[Browser]:
    settings = f'{KEY}={{"username":"admin","password":"{PASSWORD}"}}\nfileReservedTime=48\n'
    with ScriptedPeer({}) as peer:
        row = {"brokerName": "b", "cluster": "c", "brokerAddrs": {"0": peer.address}}
        known = fastjson.dumps({"brokerAddrTable": {"b": row}, "clusterAddrTable": {"c": ["b"]}})
        peer.answers = {
            Code.GET_BROKER_CLUSTER_INFO: lambda request: request.reply(body=known),
            Code.GET_BROKER_CONFIG: lambda request: request.reply(body=settings.encode()),
            Code.UPDATE_BROKER_CONFIG: lambda request: request.reply(),
            Code.GET_BROKER_RUNTIME_INFO: lambda request: request.reply(body=b'{"table":{}}'),
        }
        with served_console(ConsoleSettings(peer.address)) as browser:
            yield browser


def test_no_page_shows_a_secret(console: Browser) -> None:
    asked = console.ask("/config/set", servers="brokers", key=KEY, value=NEW)
    assert f"b {KEY} {MASK} {MASK}" in text_of(asked.text)
    done = console.say_yes("/config/set", asked)
    after = console.get(done.headers["location"])
    assert f"{KEY}={MASK} holds on b." in text_of(after.text)
    for page in (asked, after, console.get("/config", show="all")):
        assert page.status_code == 200
        assert "top-secret" not in html.unescape(page.text)


def test_what_is_no_secret_is_shown(console: Browser) -> None:
    asked = console.ask("/config/set", servers="brokers", key="fileReservedTime", value="72")
    assert "b fileReservedTime 48 72" in text_of(asked.text)
