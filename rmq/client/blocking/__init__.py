"""The blocking client of the command line, tests and tools: no threads, no compiled modules."""
