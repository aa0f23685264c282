"""Memory: where a shard's bytes live, and how threads hand pointers to each other.

    arena               one region, given out at the start and then sealed
    buffer_pool         buffers of one size from the arena
    mirror_ring         a ring mapped twice: the log's tail
    spsc_ring           pointers from one thread to another, without a lock
    chain               an intrusive list
    large_pool          blocks for what is larger than any buffer
    list_ends           checks in debug builds that a list has both of its ends or none
    name_map            byte strings to pointers: the tables of topics and groups
    region              NUMA node and memory lock of a range
    use_count           objects that are freed when nobody uses them any more

Once a shard serves, nothing here allocates except large_pool and name_map (as seldom as control
requests come).
"""
