"""Sessions, pending changes, failed logins: what is kept of browsers, for how long, and how
much."""

from __future__ import annotations

import pytest
from support.driven_clock import DrivenClock

pytest.importorskip("starlette", reason="rmq[console] is not installed")

from rmq.console.login import FAILURES_MAX, Pace, after
from rmq.console.login import WAIT_S as LOGIN_WAIT_S
from rmq.console.pending_changes import PENDING_MAX, WAIT_S, PendingChanges
from rmq.console.sessions import (
    IDLE_S,
    LIFE_S,
    SESSIONS_MAX,
    Sessions,
    is_cookie,
    new_cookie,
)
from rmq.format.signature import Credentials

ALICE = Credentials("alice", "a-secret")


@pytest.mark.still_clock
def test_a_session_ends_when_nobody_uses_it_and_at_the_latest_after_its_life(
    clock: DrivenClock,
) -> None:
    sessions = Sessions()
    cookie = sessions.begin("alice", ALICE)
    clock.advance(IDLE_S - 1)
    assert sessions.of(cookie) is not None
    clock.advance(IDLE_S - 1)  # because it was used
    assert sessions.of(cookie) is not None
    clock.advance(IDLE_S + 1)
    assert sessions.of(cookie) is None
    cookie = sessions.begin("alice", ALICE)
    for _ in range(int(LIFE_S / (IDLE_S / 2)) + 1):
        clock.advance(IDLE_S / 2)
        sessions.of(cookie)
    assert sessions.of(cookie) is None


def test_a_login_makes_a_new_name_and_an_end_takes_it_away() -> None:
    sessions = Sessions()
    first, second = sessions.begin("alice", ALICE), sessions.begin("alice", ALICE)
    assert first != second
    assert is_cookie(first)
    sessions.end(first)
    assert sessions.of(first) is None
    found = sessions.of(second)
    assert found is not None
    assert found.account == ALICE
    assert "a-secret" not in repr(found)
    assert sessions.of(new_cookie()) is None


def test_so_many_sessions_and_the_longest_unused_makes_room() -> None:
    sessions = Sessions()
    first, second = sessions.begin("a", None), sessions.begin("b", None)
    sessions.of(first)
    for _ in range(SESSIONS_MAX - 1):
        sessions.begin("c", None)
    assert sessions.of(first) is not None
    assert sessions.of(second) is None


def test_a_token_is_of_one_browser_and_one_console() -> None:
    sessions, cookie = Sessions(), new_cookie()
    token = sessions.token(cookie)
    assert sessions.is_token(cookie, token)
    assert not sessions.is_token(new_cookie(), token)
    assert not sessions.is_token(cookie, "")
    assert not sessions.is_token(cookie, token[:-1] + "\u00e4")
    assert not Sessions().is_token(cookie, token)


@pytest.mark.parametrize("text", ["", "x", "a" * 42, "a" * 44, "a" * 42 + ";", "\u00e4" * 43])
def test_what_is_no_cookie_of_ours(text: str) -> None:
    assert not is_cookie(text)


@pytest.mark.still_clock
def test_a_pending_change_is_done_once_by_the_browser_that_asked(clock: DrivenClock) -> None:
    pending, values = PendingChanges(), {"topic": "t"}
    number = pending.put("alice", "/topic/delete", values)
    assert pending.take("alice", "/topic/delete", "another") is None
    assert pending.take("alice", "/topic/delete", number) == values
    assert pending.take("alice", "/topic/delete", number) is None
    number = pending.put("alice", "/topic/delete", values)
    assert pending.take("bob", "/topic/delete", number) is None
    number = pending.put("alice", "/topic/delete", values)
    assert pending.take("alice", "/group/delete", number) is None
    number = pending.put("alice", "/topic/delete", values)
    clock.advance(WAIT_S + 1)
    assert pending.take("alice", "/topic/delete", number) is None


def test_so_many_changes_wait_and_the_oldest_is_forgotten() -> None:
    pending = PendingChanges()
    numbers = [pending.put("a", "/x", {"n": n}) for n in range(PENDING_MAX + 1)]
    assert pending.take("a", "/x", numbers[0]) is None
    assert pending.take("a", "/x", numbers[1]) == {"n": 1}


@pytest.mark.still_clock
def test_who_fails_too_often_waits_and_others_do_not(clock: DrivenClock) -> None:
    pace = Pace()
    for _ in range(FAILURES_MAX):
        assert not pace.must_wait("10.0.0.1")
        pace.failed("10.0.0.1")
    assert pace.must_wait("10.0.0.1")
    assert not pace.must_wait("10.0.0.2")
    clock.advance(LOGIN_WAIT_S + 1)
    assert not pace.must_wait("10.0.0.1")
    pace.failed("10.0.0.1")
    assert not pace.must_wait("10.0.0.1")
    pace.succeeded("10.0.0.1")


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ("/topics?part=a", "/topics?part=a"),
        ("", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/login", "/"),
        ("/logout", "/"),
        ("/a\r\nSet-Cookie: x=y", "/"),
    ],
)
def test_after_the_login_a_page_of_this_console_comes(said: str, target: str) -> None:
    assert after(said) == target
