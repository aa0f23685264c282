"""A shard's options. See options.pxd."""
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from rmq.errors import ConfigError


cdef int64_t share(int64_t bytes, int64_t percent) noexcept:
    return bytes // 100 * percent


cdef int options_read(Options* options, dict given) except -1:
    cdef bytes region = given["region"]
    cdef bytes extra = given["extra_properties"]
    cdef bytes broker_name = given["broker_name"]
    options.message_max_bytes = given["message_max_bytes"]
    options.frame_max_bytes = given["frame_max_bytes"]
    options.sync_flush = given["sync_flush"]
    options.sync_flush_timeout_ms = given["sync_flush_timeout_ms"]
    options.sync_replicas = given.get("sync_replicas", False)
    options.slave_timeout_ms = given.get("slave_timeout_ms", 3000)
    options.long_polling = given["long_polling"]
    options.short_polling_ms = given["short_polling_ms"]
    options.suspend_max_ms = given["suspend_max_ms"]
    options.pull_max_messages = given["pull_max_messages"]
    options.pull_max_bytes = given["pull_max_bytes"]
    options.disk_max_messages = min(given["disk_max_messages"], 64)
    options.disk_max_bytes = given["disk_max_bytes"]
    options.slave_read = given.get("slave_read", <int> SLAVE_READ_UNSET)
    options.memory_bytes = given.get("memory_bytes", 1 << 40)
    options.slow_bytes = share(options.memory_bytes, given.get("memory_percent", 40))
    options.broker_permission = given["broker_permission"]
    options.fast_failure = given["fast_failure"]
    options.send_wait_ms = given["send_wait_ms"]
    options.page_cache_busy_ms = given["page_cache_busy_ms"]
    options.trace_on = given["trace_on"]
    options.auto_uniq_key = given["auto_uniq_key"]
    options.reject_transactions = given["reject_transactions"]
    options.pool_fail_fast = given["pool_fail_fast"]
    options.record_crc = given["record_crc"]
    options.property_filter = given["property_filter"]
    options.filter_retries = given["filter_retries"]
    options.store_replies = given["store_replies"]
    options.recalls = given["recalls"]
    options.sends_from_ms = given["sends_from_ms"]
    if len(region) > TEXT_MAX or len(extra) > sizeof(options.extra_properties):
        raise ConfigError("regionId and brokerClusterName together are too long")
    options.broker_name_bytes = min(len(broker_name), TEXT_MAX)
    memcpy(options.broker_name, <const char*> broker_name, options.broker_name_bytes)
    memcpy(options.region, <const char*> region, len(region))
    options.region_bytes = len(region)
    memcpy(options.extra_properties, <const char*> extra, len(extra))
    options.extra_properties_bytes = len(extra)
    return 0


cdef int options_set(Options* options, str name, int64_t value) except -1:
    if name == "message_max_bytes":
        options.message_max_bytes = value
    elif name == "sync_flush_timeout_ms":
        options.sync_flush_timeout_ms = value
    elif name == "sync_replicas":
        options.sync_replicas = value != 0
    elif name == "slave_timeout_ms":
        options.slave_timeout_ms = value
    elif name == "long_polling":
        options.long_polling = value != 0
    elif name == "short_polling_ms":
        options.short_polling_ms = value
    elif name == "suspend_max_ms":
        options.suspend_max_ms = value
    elif name == "pull_max_messages":
        options.pull_max_messages = <int32_t> value
    elif name == "pull_max_bytes":
        options.pull_max_bytes = value
    elif name == "disk_max_messages":
        options.disk_max_messages = <int32_t> min(value, 64)
    elif name == "disk_max_bytes":
        options.disk_max_bytes = value
    elif name == "slave_read":
        options.slave_read = SLAVE_READ_ON if value != 0 else SLAVE_READ_OFF
    elif name == "memory_percent":
        options.slow_bytes = share(options.memory_bytes, value)
    elif name == "broker_permission":
        options.broker_permission = <int32_t> value
    elif name == "sends_from_ms":
        options.sends_from_ms = value
    elif name == "fast_failure":
        options.fast_failure = value != 0
    elif name == "send_wait_ms":
        options.send_wait_ms = value
    elif name == "page_cache_busy_ms":
        options.page_cache_busy_ms = value
    elif name == "reject_transactions":
        options.reject_transactions = value != 0
    elif name == "property_filter":
        options.property_filter = value != 0
    elif name == "filter_retries":
        options.filter_retries = value != 0
    elif name == "store_replies":
        options.store_replies = value != 0
    elif name == "recalls":
        options.recalls = value != 0
    else:
        raise KeyError(name)
    return 0
