"""Tables: what the broker knows and saves, with their files: topics, groups, offsets, locks .."""
