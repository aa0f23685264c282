"""How far behind queries are, by what Spark reports of each finished batch."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra: pip install -e .[spark]")

from rmq.arrow.access import Access
from rmq.arrow.offsets import QueueKey
from rmq.format.client_tls import ClientTls
from rmq.spark import listener
from rmq.spark.listener import OffsetListener

ABOUT = {"group": "g", "nameserver": "h:1"}


def progress(name: str | None, *sources: tuple[Any, Any]) -> Any:
    texts = [SimpleNamespace(endOffset=json.dumps(end), latestOffset=json.dumps(latest))
             for end, latest in sources]  # fmt: skip
    return SimpleNamespace(progress=SimpleNamespace(name=name, id="id-1", sources=texts))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Access, str, dict[QueueKey, int]]]:
    found: list[tuple[Access, str, dict[QueueKey, int]]] = []
    monkeypatch.setattr(listener, "commit_offsets", lambda *all_of_it: found.append(all_of_it))
    return found


def test_lag_is_what_waits_in_all_sources_that_are_ours(told: list[Any]) -> None:
    watching = OffsetListener()
    ours = ({"t": {"a": {"0": 5, "1": 7}}}, {"t": {"a": {"0": 8, "1": 7}}, "new": {"b": {"0": 9}}})
    committing = ({"u": {"a": {"0": 1}}, "": ABOUT}, {"u": {"a": {"0": 3}}, "": ABOUT})
    kafka = ({"t": {"0": 5}}, {"t": {"0": 50}})
    watching.onQueryProgress(progress("mine", ours, committing, kafka))
    assert watching.lag == {"mine": 3 + 2}
    assert [(group, offsets) for _, group, offsets in told] == [("g", {QueueKey("u", "a", 0): 1})]
    watching.onQueryProgress(progress("mine", (committing[1], committing[1])))
    assert (watching.lag, watching.committed) == ({"mine": 0}, 2)
    watching.onQueryTerminated(SimpleNamespace(id="id-1"))  # type: ignore[arg-type]
    assert watching.lag == {}


def test_queries_over_other_sources_are_none_of_its_business(told: list[Any]) -> None:
    watching = OffsetListener()
    for other in ({"t": {"0": 5}}, {"logOffset": 3}, 7, None, {"a": {"b": {"c": 1}}}):
        watching.onQueryProgress(progress(None, (other, other)))
    assert (watching.lag, told) == ({}, [])


def test_the_account_and_tls_are_those_that_were_given(told: list[Any]) -> None:
    watching = OffsetListener(
        "key", "hush", True, "ca.pem", security_token="t", tls_verify=False, tls_cert_file="c.pem",
        tls_key_file="c.key", tls_key_password="hidden",
    )  # fmt: skip
    tls = ClientTls("ca.pem", False, "c.pem", "c.key", "hidden", verify_name=False)
    watching.onQueryProgress(progress(None, ({"": ABOUT, "u": {"a": {"0": 1}}}, None)))
    ((access, _, _),) = told
    assert access == Access("h:1", "key", "hush", "t", tls)
