"""Store: what the control side reads of the log, the queues and the key index."""
