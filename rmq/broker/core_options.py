"""Core options: translates the settings into the options of the compiled half of a shard.

`make_core(settings)` turns RocketMQ's keys into the plain numbers that ShardCore takes. Numbers of
buffers are sums whose terms name their users (see `_buffers`); buffers take memory only once they
are used.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from pathlib import Path
from typing import Any

from cext.flow.shard_core import ShardCore
from rmq.broker.certificates import server_context
from rmq.broker.replication.role import (
    is_controlled,
    is_slave,
    serves_slaves,
    slaves_needed,
)
from rmq.broker.tables.deleted_topics import deleted_topics
from rmq.broker.tables.message_delay_level import parse_levels
from rmq.config import Settings
from rmq.errors import ConfigError
from rmq.format.store_files import QUEUE_ENTRY_BYTES
from rmq.limits import FRAME_BYTES_MAX
from rmq.names import revive_topic
from rmq.serving.address_table import AddressLimits
from rmq.serving.proxy_protocol import Balancers
from rmq.system.memory_limit import memory_bytes

log = logging.getLogger("rmq.broker.core_options")

RING_MARGIN_BYTES = 64  # what the log keeps free; without it the ring would be twice as large
QUEUE_CHUNKS = 262_144  # 1 KiB each: tails of consume queues, at most 256 MiB
PULLS_MAX = 65_536  # pulls held or under way, at most
PULL_SHARE_BYTES = 16_384  # on small machines: memory per possible pull; one takes 3 KiB
REPLY_BYTES = 16_384  # REPLY_BYTES of cext/net/connection.pxd
DISK_READERS = 2
MIB = 1 << 20
# (lowest, highest) limit for the bytes of large incomplete requests, summed over all clients. Half
# of the lowest is enough for the largest frame and another one that begins.
HALF_FRAME_BYTES = (40 * MIB, 512 * MIB)
LARGE_BYTES_MAX = 256 * MIB


def make_core(settings: Settings, node: int = -1) -> ShardCore:
    """A core that is not open yet; its memory comes from this NUMA node (-1: from any).
    ConfigError when a setting cannot be used."""
    options = core_options(settings) | {"node": node}
    if options["pool_bytes"]:
        log.warning(
            "store pool of %d MiB: sends are acknowledged in memory; a killed process loses what "
            "is not written yet", options["pool_bytes"] >> 20,
        )  # fmt: skip
    elif settings.transientStorePoolEnable:
        log.warning("transientStorePoolEnable has no effect %s", _why_no_pool(settings))
    return ShardCore(options)


def _clients(settings: Settings) -> dict[str, Any]:
    """Options about clients: TLS, balancers, who they are and how they connect."""
    balancers = Balancers.of(settings)
    return {
        "authenticates": settings.authenticates,
        "by_certificate": settings.rmqTlsUser != "none",
        "tls": server_context(settings),
        "balancers": balancers.packed() if balancers is not None else b"",
        "balancers_may_say_nothing": balancers is not None and balancers.may_say_nothing,
        "listen_backlog": settings.serverSocketBacklog,
    }


def core_options(settings: Settings) -> dict[str, Any]:
    """The options of ShardCore, by its own names."""
    root = Path(settings.storePathRootDir)
    return {
        "root": str(root),
        **_clients(settings),
        "checkpoint": str(root / "checkpoint"),
        "deleted_topics": deleted_topics(root.expanduser() / "config"),
        "commitlog_dir": str(settings.commit_log_directory),
        "consumequeue_dir": str(root / "consumequeue"),
        "index_dir": str(root / "index") if settings.messageIndexEnable else "",
        "index_slots": settings.maxHashSlotNum,
        "index_entries": settings.maxIndexNum,
        "segment_bytes": settings.mappedFileSizeCommitLog,
        "warm_segments": settings.warmMapedFileEnable,
        "ahead_bytes": ahead_bytes(settings),
        "queue_file_entries": settings.mappedFileSizeConsumeQueue // QUEUE_ENTRY_BYTES,
        "ring_bytes": settings.rmqRingBytes,
        # So that half of the ring stays appendable while pulls look at the other half.
        "record_max_bytes": settings.rmqRingBytes // 2 - RING_MARGIN_BYTES,
        "pool_bytes": pool_bytes(settings),
        "pool_fail_fast": settings.fastFailIfNoBufferInStorePool,
        "commit_least_pages": settings.commitCommitLogLeastPages,
        "commit_interval_ms": settings.commitIntervalCommitLog,
        "commit_thorough_ms": settings.commitCommitLogThoroughInterval,
        "message_max_bytes": settings.maxMessageSize,
        "frame_max_bytes": FRAME_BYTES_MAX,
        "sync_flush": settings.flushDiskType == "SYNC_FLUSH",
        "sync_flush_timeout_ms": settings.syncFlushTimeout,
        "sync_replicas": slaves_needed(settings) > 0,
        "slave_timeout_ms": settings.slaveTimeout,
        "flush_interval_ms": settings.flushIntervalCommitLog,
        "flush_least_pages": settings.flushCommitLogLeastPages,
        "flush_thorough_ms": settings.flushCommitLogThoroughInterval,
        "pull_max_messages": settings.maxTransferCountOnMessageInMemory,
        "pull_max_bytes": settings.maxTransferBytesOnMessageInMemory,
        "disk_max_messages": settings.maxTransferCountOnMessageInDisk,
        "disk_max_bytes": settings.maxTransferBytesOnMessageInDisk,
        "idle_ms": settings.serverChannelMaxIdleTimeSeconds * 1000,
        "busy_poll_us": settings.rmqBusyPollMicros,
        "listen_host": settings.bindAddress,
        "listen_port": settings.listenPort,
        "fast_port": serves_slaves(settings) or is_controlled(settings),
        "store_ip": _packed(settings.brokerIP1),
        "region": settings.regionId.encode(),
        "broker_permission": settings.brokerPermission,
        "fast_failure": settings.brokerFastFailureEnable,
        "send_wait_ms": settings.waitTimeMillsInSendQueue,
        "page_cache_busy_ms": settings.osPageCacheBusyTimeOutMills,
        "trace_on": settings.traceOn,
        "auto_uniq_key": True,
        "broker_name": settings.brokerName.encode(),
        "delay_levels_ms": tuple(parse_levels(settings.messageDelayLevel)),
        "timers": settings.timerWheelEnable,
        "timer_max_delay_ms": settings.timerMaxDelaySec * 1000,
        "timer_precision_ms": settings.timerPrecisionMs,
        "timer_roll_ms": roll_ms(settings),
        "reject_transactions": settings.rejectTransactionMessage,
        "record_crc": settings.enabledAppendPropCRC,
        "property_filter": settings.enablePropertyFilter,
        "filter_retries": settings.filterSupportRetry,
        "store_replies": settings.storeReplyMessageEnable,
        "recalls": settings.recallMessageEnable,
        "sends_from_ms": settings.startAcceptSendRequestTimeStamp,
        **_reading_options(settings),
        **_pop_options(settings),
        "extra_properties": _extra_properties(settings),
        "node": -1,
        **_buffers(settings),
    }


def _reading_options(settings: Settings) -> dict[str, Any]:
    """How long pulls are held, and who reads from slaves.

    slave_read is SlaveRead of cext/flow/context/options.pxd.
    """
    given = settings.given("slaveReadEnable")
    return {
        "long_polling": settings.longPollingEnable,
        "short_polling_ms": settings.shortPollingTimeMills,
        "suspend_max_ms": settings.brokerSuspendMaxTimeMillis,
        "slave_read": int(settings.slaveReadEnable) if given else 2,
        "memory_bytes": memory_bytes(),
        "memory_percent": settings.accessMessageInMemoryMaxRatio,
    }


def _pop_options(settings: Settings) -> dict[str, Any]:
    limited = settings.enablePopMessageThreshold
    return {
        "revive_topic": revive_topic(settings.brokerClusterName).encode(),
        "revive_queues": settings.reviveQueueNum,
        "pop_retry_share": settings.popFromRetryProbability,
        "pop_retry_v2": settings.enableRetryTopicV2,
        "pop_waiting_max": settings.popPollingSize,
        "pop_keep_retry_topic": settings.popResponseReturnActualRetryTopic,
        "pop_inflight_max": settings.popInflightMessageThreshold if limited else -1,
    }


def roll_ms(settings: Settings) -> int:
    """How long a timed message waits in one log file: as RocketMQ's timerRollWindowSlot says, but
    no longer than two thirds of the time that log files are kept."""
    kept_ms = settings.fileReservedTime * 3_600_000 * 2 // 3
    window_ms = settings.timerRollWindowSlot * settings.timerPrecisionMs
    return int(max(60_000, min(window_ms, kept_ms)))


def ahead_bytes(settings: Settings) -> int:
    """How many zero bytes are written ahead of the log at once; 0 where no send waits for a sync,
    or warmMapedFileEnable has written whole files already."""
    wanted: int = settings.rmqSyncAheadBytes
    syncs = settings.flushDiskType == "SYNC_FLUSH" and not settings.warmMapedFileEnable
    return wanted if syncs else 0


def pool_bytes(settings: Settings) -> int:
    """Size of the store pool, 0 if there is none; ConfigError when it is too large for this
    machine.

    transientStorePoolSize log files as RocketMQ takes them, rounded down to a power of two because
    it is a ring, and never less than rmqRingBytes. Example: 5 files of 1 GiB make 4 GiB.
    """
    if not settings.transientStorePoolEnable or _why_no_pool(settings):
        return 0
    wanted: int = settings.transientStorePoolSize * settings.mappedFileSizeCommitLog
    size = max(1 << (wanted.bit_length() - 1), settings.rmqRingBytes)
    memory = os.sysconf("SC_PAGESIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > memory // 2:
        raise ConfigError(
            f"transientStorePoolSize={settings.transientStorePoolSize}: a pool of {size >> 20} MiB "
            f"would take more than half of this machine's {memory >> 20} MiB; choose a smaller "
            "one, or a smaller mappedFileSizeCommitLog"
        )
    return int(size)


def _why_no_pool(settings: Settings) -> str:
    """Why this broker may not have a store pool; empty: it may."""
    if settings.flushDiskType == "SYNC_FLUSH":
        return "with SYNC_FLUSH"
    if is_controlled(settings) or is_slave(settings):
        return (
            "at a broker that is a slave or may become one: where its log ends has to be what is "
            "in its files, or what its master lacks could not be cut"
        )
    return ""


def _buffers(settings: Settings) -> dict[str, int]:
    connections: int = settings.rmqMaxConnections
    of_address = AddressLimits.of(settings)
    memory = memory_bytes()
    return {
        "connections_max": connections,
        "connections_per_address": of_address.connections,
        "handshakes_per_address": of_address.handshakes,
        "handshake_rate_per_address": of_address.rate,
        # A reply buffer (16 KiB) per connection with output, and 16 for each pull reply (256 KiB)
        # that must be kept for a slow client; on small machines an eighth of the memory.
        "reply_buffers": min(
            settings.rmqReplyBuffers + min(connections, 4096),
            max(settings.rmqReplyBuffers, memory // 8 // REPLY_BYTES),
        ),
        # 16 MiB each, of which only used pages take memory: large requests, batch replies, reads
        # from disk.
        "jumbo_buffers": 128,
        # Memory for larger records, which only the store of another broker can have.
        "large_bytes": min(LARGE_BYTES_MAX, memory // 8),
        **_half_frames(settings),
        "pulls_max": min(PULLS_MAX, max(1024, memory // PULL_SHARE_BYTES)),
        "queue_chunks": QUEUE_CHUNKS,
        "disk_readers": DISK_READERS,
    }


def _half_frames(settings: Settings) -> dict[str, int]:
    """How much memory incomplete large requests may hold: a quarter of all memory, and those of one
    address three quarters of that. An address gets that much because all clients of a host may
    share it: with 1 GiB, 20 clients of one address can send 8 MB each at once, and none is
    refused."""
    low, high = HALF_FRAME_BYTES
    total: int = settings.rmqHalfFrameBytes or min(max(memory_bytes() // 4, low), high)
    of_address: int = settings.rmqHalfFrameBytesPerAddress or max(total // 4 * 3, low // 2)
    return {
        "half_frame_bytes": total,
        "half_frame_bytes_of_address": min(of_address, total),
    }


def _packed(address: str) -> bytes:
    """brokerIP1 as 4 or 16 bytes; a host name is looked up once."""
    try:
        return ipaddress.ip_address(address).packed
    except ValueError:
        pass
    try:
        return ipaddress.ip_address(socket.gethostbyname(address)).packed
    except OSError as error:
        raise ConfigError(
            f"brokerIP1={address}: no such host ({error.strerror}); give the address clients reach"
        ) from None


def _extra_properties(settings: Settings) -> bytes:
    """Properties that the broker adds to each send (docs/protocol.md), in stored form."""
    pairs = {
        "MSG_REGION": settings.regionId,
        "TRACE_ON": "true" if settings.traceOn else "false",
        "CLUSTER": settings.brokerClusterName,
    }
    return b"".join(f"{name}\x01{value}\x02".encode() for name, value in pairs.items())
