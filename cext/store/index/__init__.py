"""Index: finds messages by key.

    index_key           the keys of a record, and their hashes
    index_file          one file
    index_store         all files
    indexer             the thread that fills the index and answers queries

The index can be made again from the log.
"""
