"""Role probe: the role of a core after some events.

    role_after(["follow", "doubt"])     {"slave": True, "writable": False, ..}

An event that is impossible in the state ends the process.
"""
from cext.flow.context.role cimport (
    Role,
    has_master,
    is_slave,
    is_unconfirmed,
    is_writable,
    role_confirm,
    role_doubt,
    role_demote,
    role_promote,
    role_open,
    role_stream_began,
    role_stream_ended,
)


def role_after(list events not None) -> dict:
    """The facts of a newly opened role after these events, in order."""
    cdef Role r
    role_open(&r)
    for event in events:
        if event == "lead":
            role_promote(&r)
        elif event == "follow":
            role_demote(&r)
        elif event == "stream_began":
            role_stream_began(&r)
        elif event == "stream_ended":
            role_stream_ended(&r)
        elif event == "doubt":
            role_doubt(&r)
        elif event == "confirm":
            role_confirm(&r)
        else:
            raise ValueError(event)
    return {"slave": is_slave(&r), "writable": is_writable(&r), "master": has_master(&r),
            "unconfirmed": is_unconfirmed(&r)}
