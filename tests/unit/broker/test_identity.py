"""The files that say which replica a broker is.

Goal: the texts and places are RocketMQ's. Nobody starts with the store of another replica. A broker
that was killed while it asked for its id asks for the same id again.
"""

from pathlib import Path

import pytest

from rmq.broker.replication.identity import IdentityFiles, identity_path
from rmq.config import load_properties
from rmq.errors import ConfigError, StoreCorruptError


def files(folder: Path, cluster: str = "c", name: str = "broker-a") -> IdentityFiles:
    return IdentityFiles(folder / "brokerIdentity", cluster, name)


def test_a_broker_asks_for_an_id_and_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    ours = files(folder)
    assert ours.broker_id() is None and ours.application() is None
    ours.drop_application()
    made = ours.apply(2, "10.0.0.1:10911")
    temp = (folder / "brokerIdentity-temp").read_text()
    assert temp == f"c#broker-a#2#{made.check_code}"
    assert made.check_code.startswith("10.0.0.1:10911;") and made.check_code[15:].isdigit()
    assert files(folder).application() == made  # as after a kill at this point, and another start
    ours.keep(2)
    assert (folder / "brokerIdentity").read_text() == "c#broker-a#2"
    assert {path.name for path in folder.iterdir()} == {"brokerIdentity"}
    assert files(folder).broker_id() == 2 and files(folder).application() is None


@pytest.mark.parametrize(("cluster", "name"), [("d", "broker-a"), ("c", "broker-b")])
def test_the_store_of_another_broker_is_refused(tmp_path: Path, cluster: str, name: str) -> None:
    files(tmp_path).keep(1)
    with pytest.raises(ConfigError) as caught:
        files(tmp_path, cluster, name).broker_id()
    for word in ("broker-a in cluster c", f"brokerName={name}", f"brokerClusterName={cluster}"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "c#broker-a", "c#broker-a#0", "c#broker-a#-1", "c#broker-a#1#2", "c#broker-a#x",
     "c#broker-a#9223372036854775808", "c#broker-a#" + "1" * 5000, "c#broker-a#1\x00"],
)  # fmt: skip
def test_a_damaged_file_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "brokerIdentity").write_text(text)
    with pytest.raises(StoreCorruptError, match="brokerIdentity: "):
        files(tmp_path).broker_id()


def test_an_end_of_line_is_no_harm(tmp_path: Path) -> None:
    (tmp_path / "brokerIdentity").write_text("c#broker-a#7\n")
    assert files(tmp_path).broker_id() == 7


@pytest.mark.parametrize(
    "text", ["", "c#broker-a#1", "c#broker-a#1#", "d#broker-a#1#a:1;2", "c#broker-a#z#a:1;2"]
)
def test_an_application_that_cannot_be_read_is_removed(tmp_path: Path, text: str) -> None:
    (tmp_path / "brokerIdentity-temp").write_text(text)
    assert files(tmp_path).application() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a#b", "a/b", "a\nb", "x" * 256])
def test_names_that_the_file_cannot_hold_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="brokerName="):
        files(tmp_path, name=name)


def test_no_id_out_of_range_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        files(tmp_path).keep(0)


def test_the_place_is_that_of_rocketmq() -> None:
    settings = load_properties(None, {"storePathRootDir": "/data"})
    assert identity_path(settings) == Path("/data/brokerIdentity")
    settings.set("storePathBrokerIdentity", "/elsewhere/id")
    assert identity_path(settings) == Path("/elsewhere/id")
