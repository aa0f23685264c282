"""One broker for the client's tests that want a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmq.pytest_plugin import RunningBroker, embedded_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    settings = {"transactionTimeOut": "300", "transactionCheckInterval": "300",
                "recallMessageEnable": "true",
                # No send is refused because a busy machine let a write take its time.
                "waitTimeMillsInSendQueue": "60000",
                "osPageCacheBusyTimeOutMills": "60000"}  # fmt: skip
    with embedded_broker(tmp_path_factory.mktemp("client"), settings) as broker:
        yield broker
