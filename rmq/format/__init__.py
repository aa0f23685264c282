"""Format: frames and files in plain Python, the twin of cext/wire and cext/store.

    remoting        frames and their headers
    frame_reader    the frames in a stream of bytes
    message         stored records, and the messages of a pull
    fastjson        JSON as RocketMQ's servers write it
    packed_body     bodies unpacked, up to a size
    store_files     segments, queue files, checkpoint
    index_file      files of the key index
    queue_ends      queueEnds
    own_properties  properties that brokers and clients give a message
    signature       who a request is from, and its proof
    client_tls      whom a client trusts, and what it shows
    timer_position  how far timed messages are, as brokers tell it each other
    time_search     the offset of a time
    trace           what clients with tracing on write
    audit_log       lines of the audit log, and how a server is asked for the newest of them

Tests take it as the oracle of the compiled half. Spark's executors import it.
"""
