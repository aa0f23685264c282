"""Safe by default: servers listen only on loopback without --insecure, and what follows from that
option."""

import pytest

from rmq.cli.addresses import is_loopback, settle_addresses
from rmq.config import load_properties
from rmq.errors import ConfigError


def settled(changes: dict[str, str], insecure: bool = True) -> tuple[str, str]:
    settings = load_properties(None, changes)
    settle_addresses(settings, insecure)
    return settings.bindAddress, settings.brokerIP1


def test_default_is_loopback_with_and_without_consent() -> None:
    assert settled({}, insecure=False) == ("127.0.0.1", "127.0.0.1")
    assert settled({}) == ("127.0.0.1", "127.0.0.1")


def test_advertised_address_follows_the_bound_one_and_the_other_way_round() -> None:
    assert settled({"bindAddress": "10.0.0.5"}) == ("10.0.0.5", "10.0.0.5")
    assert settled({"brokerIP1": "10.0.0.5"}) == ("0.0.0.0", "10.0.0.5")
    assert settled({"brokerIP1": "localhost"}) == ("127.0.0.1", "127.0.0.1")
    bound, told = settled({"bindAddress": "0.0.0.0"})
    assert bound == "0.0.0.0"
    assert told != "0.0.0.0"


@pytest.mark.parametrize("key", ["bindAddress", "brokerIP1"])
def test_other_machines_are_refused_without_consent(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}=10\.0\.0\.5: other machines"):
        settled({key: "10.0.0.5"}, insecure=False)


def test_names_are_not_addresses() -> None:
    with pytest.raises(ConfigError, match=r"an IP address, not a name.* `getent hosts broker\.ex"):
        settled({"brokerIP1": "broker.example"})
    assert is_loopback("::1")
    assert not is_loopback("localhost.example")
