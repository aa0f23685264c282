"""What a table's file says of the stamps of its items and of shards: a malformed stamp counts as
missing.

Not shown here: what the shards do with stamps (tests/unit/shards/test_bus_siblings.py).
"""

from typing import Any

import pytest

from rmq.broker.tables.stamps import Stamps

NOW_MS = 1_763_726_400_000


@pytest.mark.parametrize("own", ["t", {"t": 1}, 1, None])
@pytest.mark.parametrize(
    "table", [[], "t", {"t": 1}, {"t": [1]}, {"t": ["1", 2]}, {"t": [2**63, 0]}]
)
def test_what_is_malformed_counts_as_missing(own: Any, table: Any) -> None:
    stamps = Stamps()
    stamps.load({"shardStamps": table, "shardOwn": own}, {"t": 1}, NOW_MS)
    assert stamps.get("t") is None
    assert not stamps.is_own("t")


def test_the_rest_is_taken() -> None:
    stamps = Stamps()
    content = {
        "shardStamps": {"bad": [], "t": [NOW_MS, 1], "gone": [NOW_MS, 0], "long ago": [1, 0]},
        "shardOwn": [["t"], {}, None, 1, "u", "not there"],
    }
    stamps.load(content, {"t": 1, "u": 1}, NOW_MS)
    assert stamps.members() == {
        "shardStamps": {"t": [NOW_MS, 1], "gone": [NOW_MS, 0]}, "shardOwn": ["u"],
    }  # fmt: skip
