"""Log marks: how the reactor's own marks move: dispatched, replicated, visible.

cext/store/log/log_link.pxd says what each mark means. They are changed only by the functions here.
A mark that is "moved" never goes back: to try that is an error. One that is "raised" stays where it
is when the new value is less. Setting a mark back is an operation of its own, which says when it is
allowed:

    dispatched    is moved
    replicated    is raised; a slave's is lowered when its new master lacks some of the log
    visible       is raised; a limit can begin where there was none, and end; a slave's is lowered

A start sets all of them anew, before another thread sees them (CommitLog.set_end), and so does a
truncation. An operation that sets a mark back stores it without a barrier: nothing was done before
it that other threads must see.

Reactor only, or while no reactor runs.
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


# What was answered before stays answered.
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


# Begins a limit where there was none. `to`: where consumers are now, or before that.
cdef inline void visible_limit(Appender s, int64_t to) noexcept nogil:
    check(s.log.marks.visible == INT64_MAX,
          b"the log: `visible` has a limit from where it had none", s.log.marks.visible, to)
    check(0 <= to <= s.log.marks.dispatched,
          b"the log: a limit of `visible` begins at what is dispatched", to,
          s.log.marks.dispatched)
    s.log.marks.visible = to


# What was dispatched before stays dispatched.
cdef inline void visible_lower(Appender s, int64_t to) noexcept nogil:
    check(is_slave(&s.turn.role), b"the log: `visible` is set back at a slave alone",
          s.turn.role.state, to)
    check(0 <= to < s.log.marks.visible, b"the log: `visible` is set back to less",
          s.log.marks.visible, to)
    s.log.marks.visible = to
