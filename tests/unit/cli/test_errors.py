"""What a command says of an error: the cause, and the way out."""

from __future__ import annotations

import pytest

from rmq.cli.errors import ACCESS_HINTS, describe_error
from rmq.errors import ACCESS_REMEDIES, RemoteError


@pytest.mark.parametrize("ending", ACCESS_REMEDIES)
def test_each_refusal_of_an_account_has_a_remedy_in_both_words(ending: str) -> None:
    error = RemoteError(16, f"User:alice {ending}")
    assert str(error) == f"code 16: User:alice {ending} ({ACCESS_REMEDIES[ending]})"
    assert describe_error(error).hint == ACCESS_HINTS[ending]
    assert error.remark == f"User:alice {ending}"


def test_other_refusals_have_none() -> None:
    assert str(RemoteError(16, "the topic is read-only")) == "code 16: the topic is read-only"
    assert str(RemoteError(17, "orders is not found.")) == "code 17: orders is not found."
    told = describe_error(RemoteError(16, "the topic is read-only"))
    assert told.text().endswith("topic describe`")
    assert set(ACCESS_HINTS) == set(ACCESS_REMEDIES)
