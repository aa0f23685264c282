"""Outcome: what a request's handler asks of its caller, the request router (request_router.pxd).

    DONE                  nothing: it is answered, refused, held, or its answer waits for the log
    TO_CONTROL            give the whole frame to the control thread, which answers it, or makes
                          what was missing and gives it back (then `resubmitted`)
    TO_CONTROL_IN_ORDER   the same, and read nothing more from the client until the frame is back:
                          what was sent later must not be stored earlier (pending_topic_sends.pxd)
    NEEDS_RECORD          have the record at s.fetch.parked.wanted fetched from the disk, and run
                          the handler once more with it (parked_requests.pxd)
    NOT_NOW               a one-way request cannot be done at the moment, and nobody would see a
                          refusal: keep the frame and try it again (postponed_requests.pxd)
    TURN_FULL             this turn has no room for the request, and nothing of it was done: run the
                          handler once more in the next turn, before later requests (turn_room.pxd)
    CLOSE_CONNECTION      there is no buffer for the answer: close the connection
    GO_ON                 only from a check inside a handler, never from a handler: the check found
                          nothing against the request. Any other outcome of a check is the handler's

Handlers and their checks return an Outcome. Steps that may fail return a Status (or, while a record
is made, an AppendStatus); the handler's table of refusals turns that into what the client is told
(refusal.pxd).

Example: a pull of an unknown topic: TO_CONTROL; control tells the reactor of the topic and gives
the frame back; the handler finds the topic: DONE.
"""

cdef enum Outcome:
    DONE
    TO_CONTROL
    TO_CONTROL_IN_ORDER
    NEEDS_RECORD
    NOT_NOW
    TURN_FULL
    CLOSE_CONNECTION
    GO_ON
