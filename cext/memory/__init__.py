"""Memory: where a shard's bytes live, and what threads hand each other.

    arena               one region, taken from at the start, then sealed
    buffer_pool         buffers of one size from the arena
    mirror_ring         a ring mapped twice: the log's tail
    spsc_ring           pointers from one thread to another, without a lock
    chain               an intrusive list
    large_pool          blocks for what is larger than any buffer
    list_ends           a list has both of its ends or none, in debug builds
    name_map            byte strings to pointers: the tables of topics and groups
    region              NUMA node and memory lock of a range
    use_count           objects that are freed when nobody uses them any more

Nothing here allocates once a shard serves, but for name_map, at control rate, and large_pool.
"""
