"""A small synchronous client: what the command line, tests and tools need, nothing more."""
