"""Config table: for each setting its type, default, limits, and whether rmq acts on it.

Names and defaults are those of Apache RocketMQ 5.5.0; where rmq differs, the row says why. There
are three kinds:

    acted on    `BROKER`, `NAMESRV`, `CONTROLLER` below: the server uses the value. `run_time=True`
                means that updateBrokerConfig may change it while the server runs, and that the
                change takes effect; all others need a restart. tests/source/test_settings.py checks
                this
    refused     acted on, but only harmless values are allowed, which mean "off": other values stop
                the start, and are refused at run time, because it would be unsafe to go on as if
                the key were not there (access control, replication, TLS, where messages are kept)
    accepted    `config_accepted.py`: checked for type, kept, shown, without effect

Example: `_int("listenPort", 10911, 1, 65535)` makes `listenPort=70000` an error that reads
"listenPort=70000: a whole number from 1 to 65535".
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from rmq.config_accepted import ACCEPTED
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.names import TRACE_TOPIC

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
MIB = 1 << 20


MASK = "******"


class Setting(msgspec.Struct, frozen=True):
    """One row: which values a key may have, and their effect."""

    key: str
    kind: str  # "bool" | "int" | "double" | "text" | "choice"
    default: Any
    acted: bool = True
    run_time: bool = False
    low: int = -INT_MAX - 1  # limits of "int", both included
    high: int = INT_MAX
    choices: tuple[tuple[str, str], ...] = ()  # of "choice": (lower-case spelling, value kept)
    secret: bool = False  # shown as MASK, in listings and in errors
    refusal: str = ""  # why legal values are refused that are neither the default nor harmless
    harmless: tuple[Any, ...] = ()  # with `refusal`: other values that mean "off"
    hidden_when_empty: bool = False  # Java's null: left out of listings while unset


def _bool(key: str, default: bool, *, run_time: bool = False) -> Setting:
    return Setting(key, "bool", default, run_time=run_time)


def _int(
    key: str, default: int, low: int = 0, high: int = INT_MAX, *, run_time: bool = False
) -> Setting:
    return Setting(key, "int", default, run_time=run_time, low=low, high=high)


def _text(key: str, default: str, *, run_time: bool = False, null: bool = False) -> Setting:
    return Setting(key, "text", default, run_time=run_time, hidden_when_empty=null)


def _secret(key: str, *, null: bool = False) -> Setting:
    return Setting(key, "text", "", secret=True, hidden_when_empty=null)


def _choice(
    key: str, default: str, *names: str, aliases: dict[str, str] | None = None, refusal: str = "",
    run_time: bool = False,
) -> Setting:  # fmt: skip
    spellings = {name.lower(): name for name in names} | (aliases or {})
    choices = tuple(spellings.items())
    return Setting(key, "choice", default, run_time=run_time, choices=choices, refusal=refusal)


def _refused(key: str, default: Any, reason: str, *harmless: Any) -> Setting:
    """A key that it would be unsafe to ignore silently."""
    if isinstance(default, bool):
        return Setting(key, "bool", default, refusal=reason)
    if isinstance(default, int):
        return Setting(key, "int", default, low=0, high=LONG_MAX, refusal=reason, harmless=harmless)
    return Setting(
        key, "text", default, refusal=reason, harmless=harmless, hidden_when_empty=not default
    )


_NO_PROVIDER = (
    "rmq has no plug-ins of accounts, and must not look protected by one; leave it out: accounts "
    "are in the store"
)
_NO_REPLICAS = (
    "rmq has no DLedger log, and counts replicas otherwise: leave it out, and use "
    "enableControllerMode with minInSyncReplicas, or brokerRole=SYNC_MASTER with inSyncReplicas"
)
_NO_CLIENT_KEY = (
    "it is a client's: leave it out, and give tls.server.mode and tls.server.certPath for those "
    "who connect here, tls.enable for what this server asks of others"
)
_NO_PLUG_IN = (
    "rmq has no plug-ins of the store and no tiered storage: messages would be deleted after "
    "fileReservedTime; leave it out"
)
_ONE_DIRECTORY = (
    "rmq keeps its log in one directory, and messages in others would be missing; move the files "
    "to storePathCommitLog and leave it out"
)
_NO_CONTAINER = (
    "rmq has no broker containers: leave it out, and start a broker with each of these files"
)
_NO_CONTROLLER = (
    "the controller is a process of its own here: leave it out, and run `rmq controller`"
)


def _jvm(key: str, *names: str) -> Setting:
    """A JVM property of RocketMQ; empty: it is not set."""
    spellings = (("", ""), *((name, name) for name in names))
    return Setting(key, "choice", "", choices=spellings, hidden_when_empty=True)


# JVM properties of RocketMQ, which are settings like all others here.
_TLS: tuple[Setting, ...] = (
    # disabled: TLS connections are closed; permissive: plain clients, too; enforcing: only TLS
    _jvm("tls.server.mode", "disabled", "permissive", "enforcing"),
    # Without files: true, or empty, means a certificate of the server's own, and false no TLS.
    _jvm("tls.test.mode.enable", "true", "false"),
    _text("tls.server.certPath", "", null=True),  # PEM, with its chain to an authority
    _text("tls.server.keyPath", "", null=True),  # PEM
    _secret("tls.server.keyPassword", null=True),
    _text("tls.server.trustCertPath", "", null=True),  # PEM: authorities of clients' certificates
    _jvm("tls.server.need.client.auth", "none", "optional", "require"),
    # Which part of such a certificate names the user of requests that are not signed.
    _choice("rmqTlsUser", "none", "none", "commonName"),
    # for requests of this server to others; also on with tls.server.mode=enforcing
    _jvm("tls.enable", "true", "false"),
    _text("tls.client.certPath", "", null=True),
    _text("tls.client.keyPath", "", null=True),
    _secret("tls.client.keyPassword", null=True),
    _jvm("tls.client.authServer", "true", "false"),  # true: the other's certificate is checked
    _text("tls.client.trustCertPath", "", null=True),
    # A property file with more of these; it overrides all but tls.server.mode and tls.enable.
    _text("tls.config.file", "", null=True),
    _refused("useTLS", False, _NO_CLIENT_KEY),
    # Balancers, 10.0.0.5,10.1.0.0/16, which name their clients by the PROXY protocol.
    _text("rmqProxyProtocolFrom", ""),
    # Whether each of their connections must; optional: one without words is the balancer's own.
    _choice("rmqProxyProtocol", "required", "required", "optional"),
)  # fmt: skip

_LOCAL = "org.apache.rocketmq.auth"


def _provider(key: str, *names: str) -> Setting:
    return _refused(key, "", _NO_PROVIDER, *(f"{_LOCAL}.{name}" for name in names))


# Settings of all servers.
_OF_ADDRESS: tuple[Setting, ...] = (
    # Connections of one address (of IPv6: of a network of 64 bits). 0: three quarters of
    # rmqMaxConnections; the value of rmqMaxConnections means no limit.
    _int("rmqMaxConnectionsPerAddress", 0, 0, 1 << 20),
    # An address's TLS handshakes under way, and how many it may begin in a second. 0: no limit.
    _int("rmqMaxHandshakesPerAddress", 256, 0, 1 << 20),
    _int("rmqHandshakeRatePerAddress", 0, 0, 1 << 20),
)

_LOGS: tuple[Setting, ...] = (
    _choice("rmqLogFormat", "text", "text", "json"),
    _choice("rmqLogLevel", "INFO", "DEBUG", "INFO", "WARNING", "ERROR"),  # the lowest level written
    _text("rmqLogFile", "", null=True),  # instead of standard error
    _int("rmqLogLinesPerSecond", 200, 1),  # and as many errors; more are dropped and counted
    _text("rmqAuditLog", "", null=True),  # a file for the lines of the logger rmq.audit, as JSON
)

# Of brokers, as in RocketMQ; with rmq also of name servers and controllers.
_ACCOUNTS: tuple[Setting, ...] = (
    _bool("authenticationEnabled", False),
    _bool("authorizationEnabled", False),
    # JSON, or the path of a file that holds it. {"username":"..","password":".."}: a Super user,
    # made if there is no user of this name
    _secret("initAuthenticationUser"),
    # {"accessKey":"..","secretKey":".."}: a Super user, as which servers sign their requests
    _secret("innerClientAuthenticationCredentials"),
    _text("authenticationWhitelist", ""),  # request codes, 10,310, that need no signature
    _text("authorizationWhitelist", ""),  # request codes that any account may use
    _text("rmqAccountsPath", "", null=True),  # empty: rmqAccounts.json beside the other tables
    _bool("rmqCoreFiles", False),  # true: a crash may leave a core file, with the passwords in it
    _bool("aclEnable", False),  # turns on the first two, with the accounts of ACL 1.0's files
    _text("rmqPlainAclPath", "", null=True),  # plain_acl.yml; the directory acl beside it, too
    _provider("authenticationProvider", "authentication.provider.DefaultAuthenticationProvider"),
    _provider("authorizationProvider", "authorization.provider.DefaultAuthorizationProvider"),
    _provider(
        "authenticationMetadataProvider",
        "authentication.provider.LocalAuthenticationMetadataProvider",
    ),
    _provider(
        "authorizationMetadataProvider",
        "authorization.provider.LocalAuthorizationMetadataProvider",
    ),
    _provider(
        "authenticationStrategy",
        "authentication.strategy.StatelessAuthenticationStrategy",
        "authentication.strategy.StatefulAuthenticationStrategy",
    ),
    _provider(
        "authorizationStrategy",
        "authorization.strategy.StatelessAuthorizationStrategy",
        "authorization.strategy.StatefulAuthorizationStrategy",
    ),
)

BROKER: tuple[Setting, ...] = (
    # --- the broker's names, and where it listens
    _text("brokerClusterName", "DefaultCluster"),
    _text("brokerName", "broker-a"),  # Apache: the host's name
    # Of a slave: 1 or more, and unique among the brokers of its brokerName. With
    # enableControllerMode the controller gives it, and RocketMQ's files for that have -1.
    _int("brokerId", 0, -1),
    _text("brokerIP1", "127.0.0.1"),  # Apache: the first outside address, which is less safe
    _text("brokerIP2", "", null=True),  # empty: brokerIP1
    _int("listenPort", 10911, 0, 65535),  # 0: any free port
    _text("bindAddress", "127.0.0.1"),  # Apache: 0.0.0.0
    _text("namesrvAddr", "", run_time=True, null=True),
    _choice("brokerRole", "ASYNC_MASTER", "ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
    # --- master and slaves; slaves are served when brokerRole or haListenPort is set
    _int("haListenPort", 0, 0, 65535),  # 0: listenPort + 1. Apache: 10912
    _text("haMasterAddress", "", null=True),  # of a slave: where the log is; empty: asks the master
    _text("rmqMasterAddress", ""),  # of a slave: the master; empty: asks the name servers
    _bool("enableSlaveActingMaster", False),  # only told to name servers (supportActingMaster)
    _text("rmqReplicaAddresses", ""),  # 10.0.0.7;10.0.1.0/24; without accounts also this machine
    # TLS for the log. permissive: also slaves without it; enforcing: only with it, also as slave
    _choice("rmqReplicaTls", "disabled", "disabled", "permissive", "enforcing"),
    # What a slave acknowledges: written to its file, or synced; auto: as its flushDiskType
    _choice("rmqSlaveAck", "auto", "auto", "written", "durable"),
    # With SYNC_MASTER, how many brokers must have a send before it is answered, this one included;
    # 2 while it is not set. Apache: 1, which waits for nobody
    _int("inSyncReplicas", 1, 0, 17, run_time=True),
    _int("slaveTimeout", 3000, 1, run_time=True),
    _int("haSendHeartbeatInterval", 5000, 1),
    _int("haHousekeepingInterval", 20_000, 1),
    _int("haMaxGapNotInSync", 256 * MIB, 0, LONG_MAX, run_time=True),
    _int("syncControllerMetadataPeriod", 10_000, 1),  # between two copies of an Apache master
    # --- a controller decides who is master (enableControllerMode)
    _bool("enableControllerMode", False),
    _text("controllerAddr", ""),  # h1:9878;h2:9878
    # The smallest becomes master, among replicas of the same epoch with equally long logs
    _int("brokerElectionPriority", INT_MAX, -INT_MAX),
    _bool("asyncLearner", False),  # copies the log, and is never in sync
    _bool("syncFromLastFile", False),  # an empty log begins with the master's last file
    # Whether sends wait for acks of the whole sync state set; true while it is not set. Apache: one
    _bool("allAckInSyncStateSet", False, run_time=True),
    _int("minInSyncReplicas", 1, 0, 17, run_time=True),  # with fewer in the set sends are refused;
    # 2 while it is not set
    _int("haMaxTimeSlaveNotCatchup", 15_000, 1, run_time=True),  # after this it leaves the set
    _int("brokerHeartbeatInterval", 1000, 1),  # to each controller
    _int("controllerHeartBeatTimeoutMills", 10_000, 1, 600_000),  # after such silence it is dead
    _text("storePathBrokerIdentity", "", null=True),  # empty: <storePathRootDir>/brokerIdentity
    _text("storePathEpochFile", "", null=True),  # empty: <storePathRootDir>/epochFileCheckpoint
    _int("serverChannelMaxIdleTimeSeconds", 120, 1, 86400),
    # Connections that have come and are not accepted yet. Apache: 1024, too few for a burst
    _int("serverSocketBacklog", 4096, 1, 65535),
    # --- name servers
    _int("registerNameServerPeriod", 30_000, 10_000, 60_000),
    _int("registerBrokerTimeoutMills", 24_000, 1),
    _int("forwardTimeout", 3_000, 1),  # of requests to other brokers of a static topic
    # With false Apache's broker sends each change as a part of the table, which name servers with
    # deleteTopicWithBrokerRegistration take for the whole. With false rmq sends the whole table.
    _bool("enableSingleTopicRegister", True, run_time=True),
    _bool("compressedRegister", False),
    # --- topics, groups, clients
    _int("brokerPermission", 6, 0, 7, run_time=True),
    _bool("autoCreateTopicEnable", True, run_time=True),
    _int("defaultTopicQueueNums", 8, 1, TOPIC_QUEUES_MAX, run_time=True),
    _bool("autoCreateSubscriptionGroup", True, run_time=True),
    _bool("clusterTopicEnable", True),
    _bool("brokerTopicEnable", True),
    _bool("traceTopicEnable", False),
    _text("msgTraceTopicName", TRACE_TOPIC),
    _text("regionId", "DefaultRegion"),
    _bool("traceOn", True),
    _bool("validateSystemTopicWhenUpdateTopic", True, run_time=True),
    _int("channelExpiredTimeout", 120_000, 1000, LONG_MAX),
    _bool("notifyConsumerIdsChangedEnable", True, run_time=True),
    _int("flushConsumerOffsetInterval", 5000, 100, run_time=True),
    _bool("useServerSideResetOffset", True, run_time=True),
    _bool("storeReplyMessageEnable", True, run_time=True),
    _bool("enableMixedMessageType", False, run_time=True),
    _text("configBlackList", "configBlackList;brokerConfigPath"),
    _int("startAcceptSendRequestTimeStamp", 0, 0, LONG_MAX, run_time=True),
    # Apache: off, so the first SQL92 subscription of many users fails; docs/design/filters.md.
    _bool("enablePropertyFilter", True, run_time=True),
    _bool("filterSupportRetry", False, run_time=True),
    # --- consumers that pop
    _choice("defaultMessageRequestMode", "PULL", "PULL", "POP"),
    _int("defaultPopShareQueueNum", -1, -1),
    _int("popFromRetryProbability", 20, 0, 100),  # percent of pops that read the retry topic first
    _int("popPollingSize", 1024, 1),  # how many pops of one group may wait on one topic
    _bool("enableRetryTopicV2", False),
    _bool("popResponseReturnActualRetryTopic", False),
    _bool("enablePopMessageThreshold", False),
    _int("popInflightMessageThreshold", 10_000, 0),  # popped from a queue and not acknowledged
    _int("reviveQueueNum", 8, 1, 64),
    # Functions of the broker's owner with which consumers may filter, name=module:function;..
    _text("rmqMessageFilters", ""),
    _text("rmqMessageFilterPath", ""),  # the directory of their modules
    _int("rmqMessageFilterTimeoutMillis", 3000, 10, 600_000),
    _bool("rejectTransactionMessage", False, run_time=True),
    _int("transactionTimeOut", 6000, 0, LONG_MAX, run_time=True),
    _int("transactionCheckMax", 15, 1, run_time=True),
    _int("transactionCheckInterval", 30_000, 100, LONG_MAX, run_time=True),
    # --- sending and storing
    _bool("brokerFastFailureEnable", True, run_time=True),
    _int("waitTimeMillsInSendQueue", 200, 1, LONG_MAX, run_time=True),
    _int("osPageCacheBusyTimeOutMills", 1000, 1, LONG_MAX, run_time=True),
    _int("maxMessageSize", 4 * MIB, 1, 15 * MIB),  # not at run time as in Apache: buffers follow it
    _text("storePathRootDir", "~/store"),
    _text("storePathCommitLog", "", null=True),  # empty: <storePathRootDir>/commitlog
    _int("mappedFileSizeCommitLog", 1 << 30, 64 << 10, 1 << 31),
    # rounded up to whole entries of 20 bytes
    _int("mappedFileSizeConsumeQueue", 6_000_000, 20, INT_MAX // 20 * 20),
    _bool("warmMapedFileEnable", False),  # zeros are written into a new log file before its use
    # SYNC_FLUSH: zeros written ahead in new blocks, so that most syncs meet written blocks
    _int("rmqSyncAheadBytes", 256 << 10, 0, 16 << 20),
    _choice(
        "flushDiskType",
        "ASYNC_FLUSH",
        "ASYNC_FLUSH",
        "SYNC_FLUSH",
        aliases={"async": "ASYNC_FLUSH", "sync": "SYNC_FLUSH"},
    ),
    _int("flushIntervalCommitLog", 500, 1, run_time=True),
    _int("flushCommitLogLeastPages", 4, 0, run_time=True),
    _int("flushCommitLogThoroughInterval", 10_000, 1, run_time=True),
    _int("syncFlushTimeout", 5000, 1, run_time=True),
    # The store pool: messages are acked in memory and written by another thread; a killed process
    # loses what was not written. ASYNC_FLUSH only, as in RocketMQ (cext/store/log/committer.pxd)
    _bool("transientStorePoolEnable", False),
    _int("transientStorePoolSize", 5, 1, 1024),  # counted in log files
    _bool("fastFailIfNoBufferInStorePool", False),
    _int("commitIntervalCommitLog", 200, 1, 60_000),
    _int("commitCommitLogLeastPages", 4, 0, 1 << 20),
    _int("commitCommitLogThoroughInterval", 200, 1, 60_000),
    _bool("enabledAppendPropCRC", False),
    _text("messageDelayLevel", "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"),
    _bool("timerWheelEnable", True),
    # Any number of years; in Apache limited by its wheel of 7 days and its rolling.
    _int("timerMaxDelaySec", 259_200, 1, run_time=True),
    # Only of TIMER_OUT_MS: messages are delivered to the millisecond.
    _int("timerPrecisionMs", 1000, 1, 1000),
    _int("timerRollWindowSlot", 172_800, 1),
    _bool("recallMessageEnable", False, run_time=True),
    _bool("allowRecallWhenBrokerNotWriteable", True, run_time=True),
    # --- key index; what it lacks after a crash is always made anew (as with messageIndexSafe)
    _bool("messageIndexEnable", True),
    # A changed value removes the index files; they are made anew from the log.
    _int("maxHashSlotNum", 5_000_000, 1, 100_000_000),
    _int("maxIndexNum", 20_000_000, 2, 100_000_000),
    # --- retention
    _text("deleteWhen", "04", run_time=True),
    _int("fileReservedTime", 72, 0, run_time=True),
    _int("deleteFileBatchMax", 10, 1, run_time=True),
    _int("cleanResourceInterval", 10_000, 100),
    _bool("cleanFileForciblyEnable", True, run_time=True),
    _int("diskMaxUsedSpaceRatio", 75, 1, 100, run_time=True),
    _int("diskSpaceCleanForciblyRatio", 85, 1, 100, run_time=True),
    _int("diskSpaceWarningLevelRatio", 90, 1, 100, run_time=True),
    # --- pulling
    _bool("longPollingEnable", True, run_time=True),
    _int("shortPollingTimeMills", 1000, 1, LONG_MAX, run_time=True),
    _bool("litePullMessageEnable", True, run_time=True),
    _int("brokerSuspendMaxTimeMillis", 20_000, 1, LONG_MAX),  # a limit; Apache: the client's
    _int("maxTransferBytesOnMessageInMemory", 256 << 10, 1, 15 * MIB, run_time=True),
    _int("maxTransferCountOnMessageInMemory", 32, 1, 1024, run_time=True),
    _int("maxTransferBytesOnMessageInDisk", 64 << 10, 1, 15 * MIB, run_time=True),
    _int("maxTransferCountOnMessageInDisk", 8, 1, 1024, run_time=True),
    _int("accessMessageInMemoryMaxRatio", 40, 1, 100, run_time=True),
    _bool("slaveReadEnable", False, run_time=True),  # while unset, slaves nevertheless serve pulls
    _int("maxMsgsNumBatch", 64, 1, 1024),
    _int("defaultQueryMaxNum", 32, 1, 1024),
    # --- metrics and logs (rmq/broker/status/http_server.py, rmq/logs.py)
    _choice(
        "metricsExporterType",
        "DISABLE",
        *("DISABLE", "OTLP_GRPC", "PROM", "LOG"),  # only PROM has an effect
        aliases={"0": "DISABLE", "1": "OTLP_GRPC", "2": "PROM", "3": "LOG"},
    ),
    _text("metricsPromExporterHost", ""),  # empty: 127.0.0.1. Apache: every address
    _int("metricsPromExporterPort", 5557, 0, 65535),  # 0: any free port
    # Names in /metrics: those of RocketMQ 5 and rmq, those of rocketmq-exporter, or both
    _choice("rmqMetricsNames", "rmq", "rmq", "exporter", "both", run_time=True),
    _bool("rmqMetricsTls", False),  # with the certificate of tls.server.certPath
    # {"username":"..","password":".."}, or the path of a file that holds it, for /metrics
    _secret("rmqMetricsCredentials"),
    _int("metricsOtelCardinalityLimit", 50_000, 1, run_time=True),  # topics, and lags, in a sample
    # Requests that take longer are logged (rmq/broker/dispatch/slow_requests.py); 0: none
    _int("rmqSlowRequestMs", 1000, 0, run_time=True),
    *_LOGS,
    # --- refused: ignoring these silently would be unsafe
    _choice("storeType", "default", "default"),
    _refused("enableDLegerCommitLog", False, _NO_REPLICAS),
    _refused("totalReplicas", 1, _NO_REPLICAS, 0),
    _refused("enableAutoInSyncReplicas", False, _NO_REPLICAS),
    _refused("messageStorePlugIn", "", _NO_PLUG_IN),
    _refused("readOnlyCommitLogStorePaths", "", _ONE_DIRECTORY),
    _refused("brokerConfigPaths", "", _NO_CONTAINER),
    *_TLS,
    # --- accounts
    *_ACCOUNTS,
    # --- rmq's own
    # Write buffer in front of the log, a power of two. Unset: larger if maxMessageSize needs it
    _int("rmqRingBytes", 16 * MIB, MIB, 1 << 34),
    _bool("rmqPinShards", True),  # several shards: each reactor gets a core; one shard: a node
    _int("rmqShardFailuresMax", 10, 1),  # failed starts in a row after which a shard is given up
    _int("rmqShardCrashesMax", 15, 1),  # a shard that served and crashed this often within
    _int("rmqShardCrashMinutes", 10, 1, 1440),  # this many minutes is given up, too
    _int("rmqShardSilentSeconds", 30, 5),  # a shard whose control is silent this long is killed
    # A reactor that takes no turn for so long is stuck: its process is ended so that a new one
    # starts. One that waits for a disk is left alone. 0: no watch; less than 5 is refused.
    _int("rmqStuckReactorSeconds", 20, 0, 3600),
    _int("rmqMaxConnections", 16384, 1, 1 << 20),
    *_OF_ADDRESS,
    # How long an idle reactor polls before it sleeps, which saves a wake-up per answer on machines
    # whose processors have nothing better to do.
    _int("rmqBusyPollMicros", 0, 0, 1000),
    _int("rmqReplyBuffers", 1024, 16, 1 << 20),  # reply buffers of the reactor, all connections
    # Bytes of incomplete requests larger than 32 KiB, in all and for one address; 0: a quarter of
    # the memory, 40 to 512 MiB, and three quarters of that for one address.
    _int("rmqHalfFrameBytes", 0, 0, 1 << 40),
    _int("rmqHalfFrameBytesPerAddress", 0, 0, 1 << 40),
)

NAMESRV: tuple[Setting, ...] = (
    _text("bindAddress", "127.0.0.1"),
    _int("listenPort", 9876, 0, 65535),
    _text("kvConfigPath", "~/namesrv/kvConfig.json"),
    _text("configStorePath", "~/namesrv/namesrv.properties"),
    _text("configBlackList", "configBlackList;configStorePath;kvConfigPath"),
    _bool("orderMessageEnable", False, run_time=True),
    _bool("returnOrderTopicConfigToBroker", True, run_time=True),
    _int("scanNotActiveBrokerInterval", 5000, 10, LONG_MAX),
    _bool("deleteTopicWithBrokerRegistration", False, run_time=True),
    _bool("enableAllTopicList", True, run_time=True),
    _bool("enableTopicList", True, run_time=True),
    _bool("needWaitForService", False, run_time=True),
    _bool("supportActingMaster", False, run_time=True),
    _bool("notifyMinBrokerIdChanged", False, run_time=True),
    _int("waitSecondsForService", 45, 0, run_time=True),
    _int("serverChannelMaxIdleTimeSeconds", 120, 1, 86400),
    _int("serverSocketBacklog", 1024, 1, 65535),
    _int("rmqMaxConnections", 16384, 1, 1 << 20),
    *_OF_ADDRESS,
    *_LOGS,
    _refused("enableControllerInNamesrv", False, _NO_CONTROLLER),
    *_ACCOUNTS,
    *_TLS,
)

_NAMESRV_ACCEPTED = """
rocketmqHome=null
productEnvName=center
clusterTest=false
clientRequestThreadPoolNums=8
defaultThreadPoolNums=16
clientRequestThreadPoolQueueCapacity=50000
defaultThreadPoolQueueCapacity=10000
unRegisterBrokerQueueCapacity=3000
controllerDLegerGroup=null
controllerDLegerPeers=null
controllerDLegerSelfId=null
"""

CONTROLLER: tuple[Setting, ...] = (
    _text("bindAddress", "127.0.0.1"),
    _int("listenPort", 9878, 0, 65535),
    _text("controllerStorePath", "~/controller"),  # used by a controller without etcd
    _text("configStorePath", "~/controller/controller.properties"),
    _text("configBlackList", "configBlackList;configStorePath"),
    _bool("enableElectUncleanMaster", False, run_time=True),
    _bool("notifyBrokerRoleChanged", True, run_time=True),
    _int("serverChannelMaxIdleTimeSeconds", 120, 1, 86400),
    _int("serverSocketBacklog", 1024, 1, 65535),
    # --- rmq's own
    _text("rmqEtcd", ""),  # http://host:2379;.. empty: a file, for a controller that is alone
    _text("rmqControllerGroup", "rmq"),  # controllers of one group share their broker sets
    _text("rmqControllerName", ""),  # unique in its group; empty: its address
    _text("rmqControllerAddress", ""),  # the address that brokers get; empty: where it listens
    _int("rmqLeaseMillis", 5000, 500, 600_000),  # how long a master works without a controller
    _int("rmqMaxConnections", 4096, 1, 1 << 20),
    *_OF_ADDRESS,
    *_LOGS,
    *_ACCOUNTS,
    *_TLS,
)

_CONTROLLER_ACCEPTED = """
rocketmqHome=null
controllerType=DLedger
scanNotActiveBrokerInterval=5000
scanInactiveMasterInterval=5000
controllerThreadPoolNums=16
controllerRequestThreadPoolQueueCapacity=50000
controllerDLegerGroup=null
controllerDLegerPeers=null
controllerDLegerSelfId=null
mappedFileSize=1073741824
electMasterMaxRetryCount=3
isProcessReadEvent=false
jRaftGroupId=jRaft-Controller
jRaftServerId=null
jRaftInitConf=null
jRaftControllerRPCAddr=null
metricsExporterType=DISABLE
metricsGrpcExporterTarget=
metricsGrpcExporterHeader=
metricGrpcExporterTimeOutInMills=3000
metricGrpcExporterIntervalInMills=60000
metricLoggingExporterIntervalInMills=10000
metricsPromExporterPort=5557
metricsPromExporterHost=
metricsLabel=
metricsInDelta=false
"""


def _accepted(line: str) -> Setting:
    """A row of `config_accepted.py`; its type follows from the default ("05" is an hour: text)."""
    key, _, default = line.partition("=")
    digits = default.lstrip("-")
    if default in ("true", "false"):
        return Setting(key, "bool", default == "true", acted=False)
    if digits.isdigit() and (digits == "0" or digits[0] != "0"):
        return Setting(key, "int", int(default), acted=False, low=-LONG_MAX - 1, high=LONG_MAX)
    if "." in digits and digits.replace(".", "", 1).isdigit():
        return Setting(key, "double", float(default), acted=False)
    null = default in ("null", "")
    return Setting(key, "text", "" if null else default, acted=False, hidden_when_empty=null)


def _table(acted: tuple[Setting, ...], accepted: str) -> dict[str, Setting]:
    lines = (line for line in accepted.split("\n") if line and not line.startswith("#"))
    rows = {row.key: row for row in map(_accepted, lines)}
    rows.update((row.key, row) for row in acted)
    return dict(sorted(rows.items()))


@cache
def broker_table() -> dict[str, Setting]:
    """Every setting of the broker by key, in alphabetical order."""
    return _table(BROKER, ACCEPTED)


@cache
def namesrv_table() -> dict[str, Setting]:
    """Every setting of the name server by key, in alphabetical order."""
    return _table(NAMESRV, _NAMESRV_ACCEPTED + _netty_accepted())


@cache
def controller_table() -> dict[str, Setting]:
    """Every setting of the controller by key, in alphabetical order."""
    return _table(CONTROLLER, _CONTROLLER_ACCEPTED + _netty_accepted())


def table_of(server: str) -> dict[str, Setting]:
    """The table of a "broker", "namesrv" or "controller". All callers share it: do not change
    it."""
    tables = {"broker": broker_table, "namesrv": namesrv_table, "controller": controller_table}
    return tables[server]()


def _netty_accepted() -> str:
    return ACCEPTED.partition("# NettyServerConfig")[2].partition("# AuthConfig")[0]
