"""Stored messages as Arrow columns: what the Spark source is read with.

    byte_buffer, array      memory that grows, and is handed to Arrow whole
    columns                 the columns under construction, one field of a record each
    pairs                   the properties of one record as name-value pairs
    decoder                 records, as they lie in a pull reply or a log file, into columns
    puller                  one queue of a broker, read with large pulls, one pull ahead
    encoder                 rows of Arrow columns as the body of a batch send
    log_reader              a range of a commit log, read from its files without a broker

cext/arrow stands beside cext/flow: it uses cext/store, which knows nothing of it. Nothing here
imports pyarrow; rmq/spark turns the buffers into arrays.
"""
