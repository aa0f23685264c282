"""Format: frames and files in plain Python, the twin of cext/wire and cext/store.

    remoting        frames and their headers
    frame_reader    the frames in a stream of bytes
    message         stored records, and the messages of a pull
    fastjson        JSON as RocketMQ's servers write it
    packed_body     unpacks compressed bodies, up to a size
    store_files     segments, queue files, checkpoint
    index_file      files of the key index
    queue_ends      the file queueEnds
    own_properties  properties that brokers and clients give a message
    signature       whom a request comes from, and the proof of it
    client_tls      which servers a TLS client trusts, and the certificate that it shows
    timer_position  how far timed messages are delivered, as brokers tell each other
    time_search     finds the offset that belongs to a time
    trace           the trace messages that clients write when tracing is on
    audit_log       lines of the audit log, and the request for the newest of them

Tests compare the compiled half with it. Spark's executors import it.
"""
