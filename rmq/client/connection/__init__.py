"""Connections, routes, heartbeats and timers: what all clients of a process share."""
