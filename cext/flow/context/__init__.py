"""Context: what every step of a turn may need, whatever it does.

    turn_context        clocks, sockets, options, counters of the turn
    service             the base class of each folder's service: its memory and its numbers
    step                one row of the turn's table
    outcome             what a handler says came of a frame
    refusal             a response code and a text: how a request fails
    small_replies       answers without a body, frames to the control thread, lines of the log
    reply_space         bytes written straight into what a connection sends next
    property_scratch    where the properties of a message are written while they are changed
    role                master or slave, a checked state, and what clients of a slave are told
    client_state        what flow remembers of a connection, and why it leaves one unread
    control_link        the two rings between the reactor and the control thread
    unsent              how much may wait for a client that does not read
    call_block          the memory of a call's results, when there are many
    options             the settings the hot path looks at, as C values
    rpc_times           how long requests took until their answer was queued

Every other folder of cext/flow may use it.
"""
