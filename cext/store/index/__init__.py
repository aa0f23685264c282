"""Index: messages by key.

    index_key           what is hashed
    index_file          one file
    index_store         all of them
    indexer             the thread that fills it and answers queries

All of it can be made again from the log.
"""
