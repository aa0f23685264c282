"""Message filters: SQL92 expressions, and functions of the broker's owner in a process apart."""
