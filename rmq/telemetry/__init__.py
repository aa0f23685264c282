"""Telemetry: spans and metrics of OpenTelemetry for the Python client (extra `[telemetry]`).

    from rmq.telemetry import RmqInstrumentor
    RmqInstrumentor().instrument()          # or start the program by `opentelemetry-instrument`

    instrumentor    puts itself around what sends, polls and calls listeners
    spans           what a send, a poll or a listener's call says of itself
    attributes      their names and values, by the conventions for messaging
    measures        how many, and how long
    propagation     the context that travels in a message's properties

Nothing of it runs, and nothing is imported, until instrument() is called.
"""

from rmq.telemetry.instrumentor import RmqInstrumentor

__all__ = ["RmqInstrumentor"]
