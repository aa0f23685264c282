"""rmq as a source and a sink of Spark: `spark.read.format("rmq")` and its three siblings.

What Spark calls

    source      the DataSource class, the batch reader
    stream      the streaming reader: which offsets a micro-batch reads
    sink        the writers
    listener    reports finished batches to the brokers, for lag tools

What a user may say

    columns     the columns of the source as Spark's schema, and the plan of a read
    filter_pushdown     Spark's filters as ranges of queues
    reference   docs/spark.md, written from these tables

From a plan to rows

    input_partitions    ranges of queues as tasks
    store       the batch reader for the files of a store directory, without a broker

Writing, and the rest

    transactions, repeats    a batch is shown as a whole, and once; repeats are dropped
    offset_commits      offsets of a group, committed for lag tools
    session, jdk    a ready session; Java
    collector   Python's garbage collector in Spark's workers
    error_text  what an error says to Spark's user

The package pyspark-rmq beside rmq registers the source: Spark finds that package by its name.
Importing rmq.spark imports nothing. Only source, stream, store and sink, and what they import, run
on executors. Options, the choice of messages and the reading itself are in rmq/arrow.
"""
