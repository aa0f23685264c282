"""Property files of RocketMQ's: goal, that what its distribution brings, and what is copied from
page to page, starts a broker here, or is refused for a reason that is safety's. Method: their keys
with their values, in files, loaded."""

from pathlib import Path

import pytest

from rmq.config import Settings, load_properties
from rmq.errors import ConfigError

MASTER = "brokerClusterName=DefaultCluster brokerName=broker-a brokerId=0 deleteWhen=04"
ASYNC = f"{MASTER} fileReservedTime=48 brokerRole=ASYNC_MASTER flushDiskType=ASYNC_FLUSH"
SLAVE = ASYNC.replace("brokerId=0", "brokerId=1").replace("ASYNC_MASTER", "SLAVE")
REPLICA = (
    "brokerClusterName=DefaultCluster brokerName=broker-a brokerId=-1 brokerRole=SLAVE "
    "deleteWhen=04 fileReservedTime=48 enableControllerMode=true controllerAddr=127.0.0.1:9878 "
    "namesrvAddr=127.0.0.1:9876 allAckInSyncStateSet=true listenPort=30911 "
    "storePathRootDir=/data/node00 storePathCommitLog=/data/node00/commitlog"
)
CONTAINED = (
    "brokerClusterName=DefaultCluster brokerName=broker-a brokerId=0 brokerRole=SYNC_MASTER "
    "flushDiskType=ASYNC_FLUSH storePathRootDir=/data/store listenPort=10911 haListenPort=10912 "
    "inSyncReplicas=2 minInSyncReplicas=1 slaveReadEnable=true brokerHeartbeatInterval=1000 "
    "brokerNotActiveTimeoutMillis=5000 sendHeartbeatTimeoutMillis=1000 enableSlaveActingMaster=true"
)
DLEDGER = (
    "brokerClusterName=RaftCluster brokerName=RaftNode00 listenPort=30911 dLegerGroup=RaftNode00 "
    "dLegerPeers=n0-127.0.0.1:40911 dLegerSelfId=n0 sendMessageThreadPoolNums=16"
)
CONTROLLER = (
    "controllerDLegerGroup=group1 controllerDLegerPeers=n0-127.0.0.1:9878 controllerDLegerSelfId=n0"
)
CONTAINER = "listenPort=10811 namesrvAddr=127.0.0.1:9876 fetchNamesrvAddrByAddressServer=false"
COPIED = (  # from page to page, for 4.x
    f"{ASYNC} defaultTopicQueueNums=4 autoCreateTopicEnable=true autoCreateSubscriptionGroup=true "
    "listenPort=10911 mapedFileSizeCommitLog=1073741824 mapedFileSizeConsumeQueue=300000 "
    "destroyMapedFileIntervalForcibly=120000 redeleteHangedFileInterval=120000 "
    "diskMaxUsedSpaceRatio=88 storePathRootDir=/data/store storePathCommitLog=/data/commitlog "
    "storePathConsumeQueue=/data/consumequeue storePathIndex=/data/index "
    "storeCheckpoint=/data/checkpoint abortFile=/data/abort maxMessageSize=65536 "
    "flushCommitLogLeastPages=4 flushConsumeQueueLeastPages=2 flushCommitLogThoroughInterval=10000 "
    "flushConsumeQueueThoroughInterval=60000 checkTransactionMessageEnable=false "
    "sendMessageThreadPoolNums=128 pullMessageThreadPoolNums=128 haSlaveFallbehindMax=268435456"
)

STARTS = [
    ("broker", ASYNC),
    ("broker", ASYNC.replace("=ASYNC_MASTER", "=SYNC_MASTER")),
    ("broker", SLAVE),
    ("broker", REPLICA),
    ("broker", CONTAINED),
    ("broker", COPIED),
    ("controller", CONTROLLER),
    ("namesrv", "supportActingMaster=true"),
]
REFUSED = [
    ("broker", f"{DLEDGER} enableDLegerCommitLog=true", "no DLedger log"),
    ("broker", f"{CONTAINED} totalReplicas=2", "counts replicas otherwise"),
    ("broker", f"{CONTAINED} enableAutoInSyncReplicas=true", "counts replicas otherwise"),
    ("broker", f"{CONTAINER} brokerConfigPaths=/a.conf:/b.conf", "no broker containers"),
    ("namesrv", f"{CONTROLLER} listenPort=9876 enableControllerInNamesrv=true", "rmq controller"),
]


def loaded(folder: Path, server: str, pairs: str) -> Settings:
    path = folder / "a.conf"
    path.write_text(pairs.replace(" ", "\n"))
    return load_properties(path, server=server)


@pytest.mark.parametrize(("server", "pairs"), STARTS)
def test_its_files_load(tmp_path: Path, server: str, pairs: str) -> None:
    settings = loaded(tmp_path, server, pairs)
    assert all(settings.given(pair.partition("=")[0]) for pair in pairs.split())


@pytest.mark.parametrize(("server", "pairs", "reason"), REFUSED)
def test_what_is_refused_is_so_for_what_would_be_unsafe(
    tmp_path: Path, server: str, pairs: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=f"refused, .*{reason}"):
        loaded(tmp_path, server, pairs)


def test_keys_of_older_releases_are_named_as_without_effect(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "broker", COPIED)
    old = {"abortFile", "haSlaveFallbehindMax", "mapedFileSizeCommitLog", "storePathIndex"}
    assert old <= set(settings.without_effect())
    assert settings.mappedFileSizeCommitLog == 1 << 30
    assert not old & set(dict(Settings().items()))  # RocketMQ 5.5.0 lists none of them


def test_unknown_keys_are_named_all_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, "broker", "listenprt=1 zzzzzz=1 listenPort=x yyyyyy=2")
    assert str(caught.value) == (
        f"{tmp_path / 'a.conf'}: listenprt: no such setting. Did you mean listenPort? "
        "zzzzzz, yyyyyy: no such setting. RocketMQ 5.5.0 has none here either: leave them out"
    )
