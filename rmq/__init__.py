"""rmq: a RocketMQ broker installed with pip. This module holds the version and imports nothing."""

__version__ = "0.1.0"
