"""Dispatch: from the core's reports to handlers and back, fairly; what a request is."""
