"""Offline: a store's files without a broker, for `rmq store`; needs no compiled module.

    checker, index_check    is the store sound? log, queues, checkpoint; key index
    dump                    a file row by row
    queue_columns           a queue as numpy arrays;  column_files: written as .npz, .csv, .parquet
    overview                a row for each kind of file
    report                  problems by file and byte
    open_files              reads pieces of thousands of files

The store may be that of a stopped broker or, with --live, of one that serves.
"""
