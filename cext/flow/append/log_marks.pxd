"""Log marks: how the marks move that are the reactor's own: dispatched, replicated, visible.

What each says is in cext/store/log/log_link.pxd. Nobody stores them plainly. A mark is moved, which
never takes it back; or raised, where less may be said than before; and what sets it back is an
operation of its own, which says when that may be:

    dispatched    is moved
    replicated    is raised; a slave's is lowered, whose new master lacks some of it
    visible       is raised; a limit begins where there was none, and ends; a slave's is lowered

A start sets all of them anew, before anybody sees them (CommitLog.set_end), and so does a
truncation. What sets one back stores it plainly: nothing was done before that others are to see.

Reactor only, or while none runs.
"""
from libc.stdint cimport INT64_MAX, int64_t

from cext.base.check cimport check
from cext.base.watermark cimport watermark_move, watermark_raise
from cext.flow.append.appender cimport Appender
from cext.flow.context.role cimport is_slave


cdef inline void dispatched_move(Appender s, int64_t to) noexcept nogil:
    watermark_move(&s.log.marks.dispatched, to, b"dispatch: `dispatched` never moves back")


cdef inline void replicated_raise(Appender s, int64_t to) noexcept nogil:
    check(to <= s.log.marks.appended, b"the log: what is replicated was appended", to,
          s.log.marks.appended)
    watermark_raise(&s.log.marks.replicated, to)


# What was answered stays so.
cdef inline void replicated_lower(Appender s, int64_t to) noexcept nogil:
    check(is_slave(&s.turn.role), b"the log: `replicated` is set back at a slave alone",
          s.turn.role.state, to)
    check(0 <= to < s.log.marks.replicated, b"the log: `replicated` is set back to less",
          s.log.marks.replicated, to)
    s.log.marks.replicated = to


cdef inline void visible_raise(Appender s, int64_t to) noexcept nogil:
    watermark_raise(&s.log.marks.visible, to)


# All that is written is visible from now on.
cdef inline void visible_all(Appender s) noexcept nogil:
    visible_raise(s, INT64_MAX)


# The other way, from all: `to` is where consumers are by now, or before that.
cdef inline void visible_limit(Appender s, int64_t to) noexcept nogil:
    check(s.log.marks.visible == INT64_MAX,
          b"the log: `visible` has a limit from where it had none", s.log.marks.visible, to)
    check(0 <= to <= s.log.marks.dispatched,
          b"the log: a limit of `visible` begins at what is dispatched", to,
          s.log.marks.dispatched)
    s.log.marks.visible = to


# What was dispatched stays so.
cdef inline void visible_lower(Appender s, int64_t to) noexcept nogil:
    check(is_slave(&s.turn.role), b"the log: `visible` is set back at a slave alone",
          s.turn.role.state, to)
    check(0 <= to < s.log.marks.visible, b"the log: `visible` is set back to less",
          s.log.marks.visible, to)
    s.log.marks.visible = to
