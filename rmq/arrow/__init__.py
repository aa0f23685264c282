"""Topics and stores as Arrow batches: which messages are read, planned and read.

    options     what a read may be given: name, type, limits, where it counts
    access      servers and accounts
    queues      the view of the brokers: which queues there are, their offsets, how large a row is
    offsets     where reading starts and ends: the forms of the options, found at the brokers
    snapshot    start and end of every queue at one moment
    replica_choice      from which of the brokers of a name
    batches     finished columns as Arrow record batches
    store_topics        whether a store has the topics that a read names

Importing this package imports nothing.
"""
