"""Tasks: what runs by time or at the start: retention, transaction checks, pop recovery."""
