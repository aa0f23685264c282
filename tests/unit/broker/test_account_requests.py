"""Which replicas get a master's accounts, passwords included."""

from __future__ import annotations

import pytest
from support.driven_clock import DrivenClock

from rmq.broker.replication import account_requests
from rmq.broker.replication.account_requests import (
    AGE_S,
    PURPOSE,
    AccountRequests,
    new_account_request,
)

HERE, REPLICAS = "127.0.0.1:4711", "10.0.0.7;10.0.1.0/24"


def test_a_replica_is_answered_once_for_each_ask() -> None:
    requests, ask = AccountRequests(), new_account_request()
    assert requests.refusal(ask, HERE, "") == ""
    assert "before" in requests.refusal(ask, HERE, "")
    assert requests.refusal(new_account_request(), "10.0.1.200:4711", REPLICAS) == ""
    assert "names no 10.0.2.1" in requests.refusal(new_account_request(), "10.0.2.1:4711", REPLICAS)
    assert "names no 10.0.0.7" in requests.refusal(new_account_request(), "10.0.0.7:4711", "")
    assert "names no None" in requests.refusal(new_account_request(), "", REPLICAS)


@pytest.mark.parametrize(
    "text", ["1", "orders", "", PURPOSE, f"{PURPOSE} x 00", f"{PURPOSE} -1 00",
             f"{PURPOSE} {'9' * 400} 00"],
)  # fmt: skip
def test_no_other_words_ask(text: str) -> None:
    requests = AccountRequests()
    assert requests.refusal(text, HERE, "") == "no replica asks for accounts so"
    assert requests.refusal(new_account_request().replace("accounts", text), HERE, "") != ""


def test_what_was_said_long_ago_is_refused_and_forgotten(
    clock: DrivenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, ask = AccountRequests(), new_account_request()
    assert requests.refusal(ask, HERE, "") == ""
    clock.advance(AGE_S + 10)
    assert "s ago, by this clock" in requests.refusal(ask, HERE, "")
    clock.advance(AGE_S)
    assert requests.refusal(new_account_request(), HERE, "") == ""
    assert len(requests._seen) == 1
    clock.set_wall(-2 * AGE_S)
    early = f"{PURPOSE} {(clock.now_ms() + 1000 * int(AGE_S + 10))} 00"
    assert "s ago, by this clock" in requests.refusal(early, HERE, "")
    monkeypatch.setattr(account_requests, "REQUESTS_MAX", 3)
    for _ in range(9):
        assert requests.refusal(new_account_request(), HERE, "") == ""
    assert len(requests._seen) == 3
