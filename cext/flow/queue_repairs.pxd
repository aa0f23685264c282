"""Queue repairs: when a damaged queue file is repaired, the log says so and waiting clients go on.

A pull or a pop that meets an impossible queue entry is held while its queue is repaired from the
log (cext/store/queues/queue_repair.pxd), and is then answered as if nothing had happened. The log
gets a line for each place: the file, the byte in it, and how many entries were made anew.
"""
from cext.flow.context.step cimport Step
from cext.flow.pull.pull_service cimport PullService

# Once a turn; costs a look at one number while nothing is being repaired.
cdef Step queue_repairs_step(PullService s) noexcept
