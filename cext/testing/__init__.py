"""Testing: protocols, loops, probes and planted mistakes for tests and benchmarks; in no wheel.

    driven_reactor      a reactor without a core, run turn by turn
    driven_core         a core that is open and not started, run turn by turn
    line_echo           a protocol: each line is answered with its number
    toy_transport       a transport that changes bytes on their way, as TLS does
    stage_loops         one stage of the core over and over, so that its cost can be counted
    base_probe          clocks, durations, checksums and system calls, one at a time
    memory_probe        each part of memory made, used and closed
    guarded_bytes       a buffer whose end is the last byte that may be touched
    net_probe           whether a client asks to resume a session
    load_probe          answers as the load generator reads them
    wire_probe          mutated frames for every reader of the wire; what each step of a send costs
    frame_probe         frames and headers read, replies written and read
    text_probe          strings and numbers of headers and properties
    store_probe         the turns of the commit log, its threads and the queues, made by hand;
                        marks, windows, disk readers; the key index; the checkpoint; what each has
                        counted
    arrow_probe         stored records decoded into columns
    request_probe       what readers of requests find
    message_probe       properties, ids and filters of a message; check points of pops
    record_probe        a record written, parsed, checked; its keys and tags code
    timer_probe         a heap of timers and its keeper, driven as the reactor drives them
    role_probe          the role of a core after some events
    broken_invariant    each kind of broken invariant, for the test that sees the process end
    broken_store        the same for the store's marks and hand-overs
    broken_flow         the same for the flow's answers, dispatch, marks and role
    broken_requests     the same for what waits in the flow: its counts and lists

Each is compiled beside the product and imports it; the product imports none of it.
"""
