"""Which retry topics belong to a group: some names can be read in two ways."""

from __future__ import annotations

import pytest

from rmq.client.blocking.group_lag import retry_topics

TOPICS = {
    "orders", "orders_eu", "%RETRY%eu", "%RETRY%eu_orders", "%RETRY%eu+orders", "%RETRY%europe",
    "%RETRY%eu_gone", "%DLQ%eu", "%RETRY%eu_orders_orders_eu",
}  # fmt: skip


@pytest.mark.parametrize(
    ("group", "groups", "found"),
    [
        ("eu", {"eu", "europe"}, ["%RETRY%eu", "%RETRY%eu+orders", "%RETRY%eu_orders"]),
        ("eu", {"eu", "eu_orders"}, ["%RETRY%eu", "%RETRY%eu+orders"]),
        ("eu_orders", {"eu", "eu_orders"}, ["%RETRY%eu_orders", "%RETRY%eu_orders_orders_eu"]),
        ("europe", {"eu", "europe"}, ["%RETRY%europe"]),
        ("nobody", {"eu"}, []),
    ],
)
def test_those_of_a_group(group: str, groups: set[str], found: list[str]) -> None:
    assert retry_topics(group, TOPICS, groups) == found
