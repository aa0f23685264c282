"""Queue repairs: a damaged queue file was repaired: a log line says so, and who waits goes on.

A pull or a pop that meets a queue entry that cannot be is held while its queue is repaired from the
log (cext/store/queues/queue_repair.pxd), and is then answered as if nothing had been. The log gets
a line for each place: the file, the byte in it, and how many entries were made anew.
"""
from cext.flow.context.step cimport Step
from cext.flow.pull.pull_service cimport PullService

# Once a turn; a look at one number as long as nothing is repaired.
cdef Step queue_repairs_step(PullService s) noexcept
