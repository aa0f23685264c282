"""help() of the client's classes, and their signatures, name every parameter."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc

import pytest

import rmq
import rmq.aio
from rmq.client import parameters

CLASSES = [
    (rmq.Producer, parameters.ProducerParameters),
    (rmq.TransactionProducer, parameters.TransactionProducerParameters),
    (rmq.PushConsumer, parameters.PushConsumerParameters),
    (rmq.PullConsumer, parameters.PullConsumerParameters),
    (rmq.PopConsumer, parameters.PopConsumerParameters),
    (rmq.Admin, parameters.ClientParameters),
    (rmq.aio.Producer, parameters.ProducerParameters),
    (rmq.aio.TransactionProducer, parameters.TransactionProducerParameters),
    (rmq.aio.PushConsumer, parameters.PushConsumerParameters),
    (rmq.aio.PullConsumer, parameters.PullConsumerParameters),
    (rmq.aio.PopConsumer, parameters.PopConsumerParameters),
]


@pytest.mark.parametrize(("client", "of"), CLASSES)
def test_every_parameter_is_shown(client: type, of: type) -> None:
    shown = inspect.signature(client).parameters
    text = pydoc.plain(pydoc.render_doc(client))
    assert "docs/" not in text, "pip installs no docs"
    for each in dataclasses.fields(of):
        assert each.name in shown, each.name
        if shown[each.name].kind == inspect.Parameter.KEYWORD_ONLY:
            assert shown[each.name].default == each.default
            assert f"{each.name} = {each.default!r}" in text, each.name
            assert each.metadata["text"].split()[-1] in text
    assert "changes" not in shown and shown["parameters"].default is None
    common = {each.name for each in dataclasses.fields(parameters.ClientParameters)}
    own = [name for name in shown if name not in common and f"  {name} = " in text]
    first = text.index("  namesrv_addr = ")
    assert all(text.index(f"  {name} = ") < first for name in own), "what all have comes last"


def test_a_class_made_from_one_shows_its_own_words() -> None:
    class Own(rmq.Producer):
        """Mine."""

    class Other(rmq.Producer):
        def __init__(self, tenant: str) -> None:
            super().__init__(tenant)

    assert list(inspect.signature(Other).parameters) == ["tenant"]
    assert Own.__doc__ == "Mine." and "namesrv_addr" in inspect.signature(Own).parameters
