"""Who is given a master's accounts, passwords with them."""

from __future__ import annotations

import pytest
from support.driven_clock import DrivenClock

from rmq.broker.replication import account_asks
from rmq.broker.replication.account_asks import AGE_S, PURPOSE, AccountAsks, new_ask

HERE, REPLICAS = "127.0.0.1:4711", "10.0.0.7;10.0.1.0/24"


def test_a_replica_is_answered_once_for_each_ask() -> None:
    asks, ask = AccountAsks(), new_ask()
    assert asks.refusal(ask, HERE, "") == ""
    assert "before" in asks.refusal(ask, HERE, "")
    assert asks.refusal(new_ask(), "10.0.1.200:4711", REPLICAS) == ""
    assert "names no 10.0.2.1" in asks.refusal(new_ask(), "10.0.2.1:4711", REPLICAS)
    assert "names no 10.0.0.7" in asks.refusal(new_ask(), "10.0.0.7:4711", "")
    assert "names no None" in asks.refusal(new_ask(), "", REPLICAS)


@pytest.mark.parametrize(
    "text", ["1", "orders", "", PURPOSE, f"{PURPOSE} x 00", f"{PURPOSE} -1 00",
             f"{PURPOSE} {'9' * 400} 00"],
)  # fmt: skip
def test_no_other_words_ask(text: str) -> None:
    asks = AccountAsks()
    assert asks.refusal(text, HERE, "") == "no replica asks for accounts so"
    assert asks.refusal(new_ask().replace("accounts", text), HERE, "") != ""


def test_what_was_said_long_ago_is_refused_and_forgotten(
    clock: DrivenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks, ask = AccountAsks(), new_ask()
    assert asks.refusal(ask, HERE, "") == ""
    clock.advance(AGE_S + 10)
    assert "s ago, by this clock" in asks.refusal(ask, HERE, "")
    clock.advance(AGE_S)
    assert asks.refusal(new_ask(), HERE, "") == ""
    assert len(asks._seen) == 1
    clock.set_wall(-2 * AGE_S)
    early = f"{PURPOSE} {(clock.now_ms() + 1000 * int(AGE_S + 10))} 00"
    assert "s ago, by this clock" in asks.refusal(early, HERE, "")
    monkeypatch.setattr(account_asks, "ASKS_MAX", 3)
    for _ in range(9):
        assert asks.refusal(new_ask(), HERE, "") == ""
    assert len(asks._seen) == 3
