"""Requests: the handlers by area, and the table of request codes."""
