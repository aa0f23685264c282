"""PushConsumer: pulls by itself and calls a listener."""
