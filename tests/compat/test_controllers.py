"""Goal: a controller of either kind leads brokers of either kind, and nothing acknowledged is lost.

Method: Apache RocketMQ 5.5.0 and rmq as processes: a controller and brokers of one name, killed
with SIGKILL. Each acknowledgement needs all replicas in sync, and at least two. Logs are compared
to the byte, and a Java push consumer reads over all of it. Numbers of the wire: tests/unit/
controller and tests/unit/broker. Cannot prove: what several Apache controllers do among themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from compat.controlled_set import CLUSTER, NAME, ControlledSet, Sender, log_end, queue_ends, wait
from compat.runner import ScenarioRunner

from rmq.format.message import decode_messages

COUNT = 200


@contextmanager
def brokers_of(folder: Path, controller: str, *kinds: str, **more: str) -> Iterator[ControlledSet]:
    """A set of brokers that are all in sync and have topic t."""
    brokers = ControlledSet(folder, controller, **more)
    try:
        for kind in kinds:
            brokers.add(kind)
        everyone = set(brokers.replicas)
        assert everyone == set(range(1, len(kinds) + 1))
        brokers.wait_in_sync(everyone)
        assert brokers.wait_for_master(*everyone) == 1  # the first broker that came
        brokers.make_topic("t")
        yield brokers
    finally:
        brokers.end()


def fail_over(brokers: ControlledSet, sender: Sender) -> None:
    """The master is killed, another broker leads, and the old master comes back as its slave."""
    everyone = set(brokers.replicas)
    old, epoch = brokers.master_id(), brokers.set_state()["masterEpoch"]
    assert old is not None
    brokers.master.kill()
    new = brokers.wait_for_master(*(everyone - {old}))
    assert brokers.set_state()["masterEpoch"] > epoch
    if len(everyone) > 2:
        brokers.wait_in_sync(everyone - {old})
        sender.more(COUNT)
    brokers.replicas[old].start()
    brokers.wait_in_sync(everyone)
    assert brokers.master_id() == new
    sender.more(COUNT)


@pytest.mark.parametrize(
    ("controller", "kinds"),
    [
        ("apache", ("rmq", "rmq", "rmq")),
        ("rmq", ("apache", "apache")),
        ("rmq", ("rmq", "apache")),
        ("apache", ("apache", "rmq")),
    ],
)
def test_what_was_acknowledged_is_consumed_over_two_failovers(
    java: Callable[[str], ScenarioRunner], tmp_path: Path, controller: str, kinds: tuple[str, ...]
) -> None:
    """In a mixed set each kind of broker follows the other, and takes over from it."""
    client = java("java-5.5.0-json")
    with brokers_of(tmp_path / "set", controller, *kinds) as brokers:
        reader = {"as": "reader", "run": tmp_path.name, "nameServer": brokers.namesrv}
        client.run("replica_open", group="g", topic="t", **reader)
        try:
            sender = Sender(brokers, "t")
            sender.more(COUNT)
            for _ in range(2):
                fail_over(brokers, sender)
            client.run("replica_wait", count=sender.count, **reader)
        finally:
            found = client.run("replica_close", **reader)
        assert found["numbers"] == sender.count
        epochs = [each.epochs() for each in brokers.replicas.values()]
        assert [epoch for epoch, _ in epochs[0]] == [1, 2, 3]
        assert all(each == epochs[0] for each in epochs)
        brokers.same_log()


@pytest.mark.parametrize("kinds", [("rmq", "apache"), ("apache", "rmq"), ("rmq", "rmq")])
def test_what_only_the_old_master_has_is_cut(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """The slave is paused, and the master stores what it cannot acknowledge. Both are killed, and
    the slave comes back first: it is elected, and the old master cuts its log when it connects."""
    with brokers_of(tmp_path / "set", "rmq", *kinds) as brokers:
        sender = Sender(brokers, "t")
        sender.more(COUNT)
        brokers.replicas[2].pause()
        sender.unheard(20)
        for replica in brokers.replicas.values():
            replica.kill()
        brokers.replicas[2].start()
        brokers.wait_for_master(2)
        brokers.replicas[1].start()
        brokers.wait_in_sync({1, 2})
        sender.more(COUNT)
        # A message that was answered 12 (the slave was too late) is stored, and was sent again: the
        # log says how often.
        log = brokers.master.log_bytes(0, brokers.same_log())
        stored = [each.body for each in decode_messages(log) if each.topic == "t"]
        assert set(stored) == {b"%d" % number for number in range(sender.count)}
        for replica in brokers.replicas.values():
            # A slave learns with the next message, or 5 s later, that the last message is
            # confirmed.
            what = f"all {len(stored)} in the queues of {replica.address}"
            wait(what, lambda at=replica: sum(queue_ends(at.address, "t")) == len(stored))


def check_cleaning(
    brokers: ControlledSet, admin: Callable[..., str], controller: str, clean: tuple[str, ...]
) -> None:
    """A replica that is gone is removed from what the controller knows, and from the set."""
    assert "CODE: 2009 " in admin(*clean, "-bn", NAME, "-b", "1")
    assert "CODE: 2009 " in admin(*clean, "-bn", "nobody")
    brokers.replicas[1].kill()
    if controller == "rmq":  # a set of one would allow no answer, and 1 has everything
        seen = ("getSyncStateSet", "-a", "@", "-b", NAME)
        wait("1 is known to be gone", lambda: "alive=false" in admin(*seen))
        assert brokers.in_sync() == {1, 2}
    else:  # it would elect 1 with a disk that was emptied
        brokers.wait_in_sync({2})
    assert "metadata from controller success" in admin(*clean, "-bn", NAME, "-b", "1")
    assert set(brokers.addresses()) == brokers.in_sync() == {2}


@pytest.mark.parametrize("controller", ["rmq", "apache"])
def test_mqadmin_sees_and_leads(
    java: Callable[[str], ScenarioRunner], tmp_path: Path, controller: str
) -> None:
    """mqadmin's output for either controller is compared with the same text; the brokers are
    rmq's."""
    client = java("java-5.5.0-json")
    with brokers_of(tmp_path / "set", controller, "rmq", "rmq") as brokers:
        Sender(brokers, "t").more(20)
        one, two = (brokers.replicas[number].address for number in (1, 2))

        def admin(*words: str) -> str:
            words = tuple(brokers.controller if word == "@" else word for word in words)
            arguments = {f"a{index}": word for index, word in enumerate(words)}
            output = client.run("mqadmin", nameServer=brokers.namesrv, **arguments)["output"]
            return re.sub(r"[ \t]+", " ", str(output))

        shown = admin("getControllerMetaData", "-a", "@")
        assert f"#ControllerLeaderAddress {brokers.controller}" in shown
        assert re.search(rf"#Peer: \S+:{brokers.controller}", shown)
        first = (
            f"\n#brokerName {NAME}\n#MasterBrokerId 1\n#MasterAddr {one}\n#MasterEpoch 1\n"
            "#SyncStateSetEpoch 2\n#SyncStateSetNums 2\n"
            f"\nInSyncReplica: ReplicaIdentity{{brokerName='{NAME}', brokerId=1, "
            f"brokerAddress='{one}', alive=true}}\n"
            f"\nInSyncReplica: ReplicaIdentity{{brokerName='{NAME}', brokerId=2, "
            f"brokerAddress='{two}', alive=true}}\n"
        )
        assert admin("getSyncStateSet", "-a", "@", "-b", NAME) == first
        assert admin("getSyncStateSet", "-a", "@", "-c", CLUSTER) == first
        end = log_end(one)
        epochs = {
            f"\n#clusterName {CLUSTER}\n#brokerName {NAME}\n#brokerAddr {address}\n"
            f"#brokerId {number}\n#Epoch: EpochEntry{{epoch=1, startOffset=0, endOffset={end}}}\n"
            for number, address in ((1, one), (2, two))
        }
        for words in (("-b", NAME), ("-c", CLUSTER)):
            parts = admin("getBrokerEpoch", *words).split("\n#clusterName ")
            assert {f"\n#clusterName {part}" for part in parts[1:]} == epochs
        for words in (("-b", one), ("-c", CLUSTER)):
            shown = admin("haStatus", *words)
            assert f"#MasterAddr {one}\n#MasterCommitLogMaxOffset {end}\n#SlaveNum 1\n" in shown
            assert re.search(rf"127.0.0.1:\d+ {end} 0 0.00 OK {end}\n", shown)

        config = admin("getControllerConfig", "-a", "@")
        assert "electMasterMaxRetryCount = 3\n" in config
        assert "enableElectUncleanMaster = false\n" in config
        setting = ("-k", "enableElectUncleanMaster", "-v", "true")
        changed = admin("updateControllerConfig", "-a", "@", *setting)
        assert f"success![{brokers.controller}]\nenableElectUncleanMaster : true" in changed
        assert "enableElectUncleanMaster = true\n" in admin("getControllerConfig", "-a", "@")
        refused = admin("updateControllerConfig", "-a", "@", "-k", "configStorePath", "-v", "/x")
        assert "CODE: 16 " in refused

        shown = admin("electMaster", "-a", "@", "-b", "2", "-bn", NAME, "-c", CLUSTER)
        if controller == "rmq":
            assert f"#BrokerMasterAddr {two}\n#MasterEpoch 2\n#SyncStateSetEpoch 3\n" in shown
        else:  # the controller does it, and mqadmin cannot read the answer
            assert "not support unquoted name" in shown
        assert brokers.wait_for_master(2) == 2
        brokers.wait_in_sync({1, 2})
        nine = admin("electMaster", "-a", "@", "-b", "9", "-bn", NAME, "-c", CLUSTER)
        assert "CODE: 2012 " in nine

        clean = ("cleanBrokerMetadata", "-a", "@", "-c", CLUSTER)
        check_cleaning(brokers, admin, controller, clean)
