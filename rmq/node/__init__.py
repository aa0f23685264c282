"""Node: what a process needs that serves: its store lock, its start and stop, its ready line."""
