"""The Python client; beside it the blocking client of the command line, tests and tools."""
