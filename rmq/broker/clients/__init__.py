"""Clients: who is connected, in which groups, with which subscriptions and filters."""
