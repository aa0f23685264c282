"""Topics and stores as Arrow batches: which messages are wanted, the plan, and the reading.

What a program calls

    tables, table_writer    topics and stores as tables, tables as messages: functions of `rmq`
    arguments, keywords     options as Python's keywords and values; the same for type checkers

What is wanted

    options     what a read may be given: name, type, limits, where it counts
    columns     the columns, with their types and the fields of cext/arrow behind them
    access      how servers are reached: addresses, account, TLS

The plan

    read_plan   what every part of a read has in common
    queues      what brokers know: which queues there are, their offsets, how large a row is
    offsets     where reading starts and ends, in the forms that options may give
    snapshot    start and end of every queue at one moment
    queue_ranges        parts of queues, cut and gathered into tasks

The reading

    range_reader        ranges of queues, from their brokers
    replica_choice      from which replica a range is read
    read_ahead  several parts at once, in order
    store_log   the log of a store directory, read without a broker
    store_topics        whether a store has the topics that a read names
    batches     finished columns as Arrow record batches

Writing

    rows, kafka_rows    record batches as messages; the same by the columns of Kafka's sink
    sender      messages on their way to the brokers, several batches under way

rmq/spark reads and writes with these modules, too. Importing this package imports nothing.
"""
