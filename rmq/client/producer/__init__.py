"""Sending: the producer, transactions, requests with replies."""
