"""Options: the settings that the hot path looks at, as plain C values.

The control thread writes them: all before the start, and those of set_option() at run time too.
Each of the latter is one machine word, and the reactor may see its change a turn later.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    TEXT_MAX = 256

cdef enum SlaveRead:                # slaveReadEnable
    SLAVE_READ_OFF = 0              # given as false: a slave refuses pulls
    SLAVE_READ_ON = 1
    SLAVE_READ_UNSET = 2            # a slave serves pulls, but its master sends nobody there

cdef struct Options:
    int64_t message_max_bytes       # maxMessageSize
    int64_t frame_max_bytes
    bint sync_flush                 # flushDiskType
    int64_t sync_flush_timeout_ms
    bint sync_replicas              # answers wait for the slaves, too
    int64_t slave_timeout_ms        # slaveTimeout
    bint long_polling
    int64_t short_polling_ms
    int64_t suspend_max_ms
    int32_t pull_max_messages       # maxTransferCountOnMessageInMemory
    int64_t pull_max_bytes          # maxTransferBytesOnMessageInMemory
    int32_t disk_max_messages       # maxTransferCountOnMessageInDisk
    int64_t disk_max_bytes          # maxTransferBytesOnMessageInDisk
    int32_t slave_read              # SlaveRead
    int64_t memory_bytes            # of this machine
    int64_t slow_bytes              # accessMessageInMemoryMaxRatio of it; slow if further behind
    int32_t broker_permission       # brokerPermission
    bint fast_failure               # brokerFastFailureEnable
    int64_t send_wait_ms            # waitTimeMillsInSendQueue
    int64_t page_cache_busy_ms      # osPageCacheBusyTimeOutMills
    bint trace_on
    bint auto_uniq_key
    bint reject_transactions        # rejectTransactionMessage
    bint pool_fail_fast             # fastFailIfNoBufferInStorePool
    bint record_crc                 # enabledAppendPropCRC
    bint property_filter            # enablePropertyFilter
    bint filter_retries             # filterSupportRetry
    bint store_replies              # storeReplyMessageEnable
    bint recalls                    # recallMessageEnable
    int64_t sends_from_ms           # startAcceptSendRequestTimeStamp
    uint8_t store_host[20]          # brokerIP1 + listenPort as a record holds them
    uint32_t store_host_bytes
    uint8_t region[TEXT_MAX]        # value of MSG_REGION
    uint32_t region_bytes
    uint8_t broker_name[TEXT_MAX]   # of recall handles
    uint32_t broker_name_bytes
    uint8_t extra_properties[1024]  # MSG_REGION, TRACE_ON, CLUSTER in stored form
    uint32_t extra_properties_bytes

# Takes all options but the store host from ShardCore's dict; ConfigError when a text is too long.
cdef int options_read(Options* options, dict given) except -1
# Changes an option that may change at run time; KeyError for any other name.
cdef int options_set(Options* options, str name, int64_t value) except -1
