"""rmq as a source and a sink of Spark: `spark.read.format("rmq")` and its three siblings.

    options     every option: name, type, limits, where it counts
    columns     the columns of the source, as Spark's schema and as fields of cext/arrow
    offsets     where reading starts and ends: the forms of the options, found at the brokers
    queues      the view of the brokers: which queues there are, their offsets, how large a row is
    planning    ranges of queues cut into input partitions
    pulling     an input partition read from its broker, on an executor
    batches     finished columns as Arrow record batches
    store       the same without a broker: the files of a store directory
    source      the DataSource class, the batch reader
    stream      the streaming reader
    sink        the writers
    session     a ready session for `rmq spark shell`

pyspark_rmq registers it all: Spark finds that module by its name. Importing this package imports
nothing, and nothing in it runs on executors but pulling, batches, store and sink.
"""
