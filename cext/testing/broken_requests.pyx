"""Broken requests: counts and lists of what waits in the flow, broken on purpose.

    PLANTS["revive_once"]()     does not return (broken_invariant.pyx)
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc
from libc.string cimport memset

from cext.flow.context.step cimport Step
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.delay.delay_service cimport DelayService
from cext.flow.delay.schedule cimport due_ms, schedule_step
from cext.flow.fetch.disk_fetch cimport FetchPool, fetch_pool_arena_bytes
from cext.flow.fetch.parked_requests cimport (
    ParkedRequest, ParkedRequests, parked_again, parked_begin, parked_end)
from cext.flow.pop.held_pops cimport pop_asleep, pop_on_event
from cext.flow.pop.pop_job cimport NOTIFY, POP, PopJob
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.revive_ring cimport ReviveQueue, ring_add, ring_finish_next
from cext.flow.pull.held_pulls cimport hold_in
from cext.flow.pull.held_pulls cimport release as release_held
from cext.flow.pull.pull_job cimport JOB_HELD, JOB_LEFT, JOB_READY, PullJob
from cext.flow.pull.pull_service cimport TIMER_SLOTS, PullService
from cext.flow.request_reply.reply_table cimport (
    ReplyTable, reply_table_arena_bytes, reply_table_check, reply_table_free, reply_table_next,
    reply_table_open, reply_table_take)
from cext.memory.arena cimport SharedArena
from cext.memory.chain cimport ChainEntry
from cext.net.connection cimport Connection


# ------------------------------------------------------------------- revival

cdef ReviveQueue two_points(PopPair* pair, int64_t first_ms, int64_t second_ms):
    """Two check points wait, which are due at these times."""
    cdef ReviveQueue q
    memset(&q, 0, sizeof(q))
    memset(pair, 0, sizeof(PopPair))
    ring_add(&q, pair, 0, 100, 1, first_ms)
    ring_add(&q, pair, 0, 200, 1, second_ms)
    return q


def _revive_places():
    """More check points are kept than there are places: the next one would overwrite one."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.tail = 300
    ring_add(&q, &pair, 0, 300, 1, 30)


def _revive_waiting():
    """One waits for its time that is not kept any more."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.heap_count = 3
    ring_add(&q, &pair, 0, 300, 1, 30)


def _revive_kept():
    """Two are kept, and neither will ever be due."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.heap_count = 0
    ring_add(&q, &pair, 0, 300, 1, 30)


def _revive_over():
    """One ends, and none waits."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.heap_count = 0
    ring_finish_next(&q)


def _revive_number():
    """The one that ends is a number that was never given."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.heap[0] = 7
    ring_finish_next(&q)


def _revive_once():
    """The newer one ends twice, while the older one is still kept."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 20, 10)
    ring_finish_next(&q)
    q.heap[0] = 1
    ring_finish_next(&q)


def _revive_bucket():
    """No ack finds a check point, because its bucket has lost it."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    memset(q.buckets, 0xFF, q.capacity * sizeof(int32_t))
    ring_finish_next(&q)


def _revive_order():
    """Seen only by debug builds: the second one is due first, and is not on top."""
    cdef PopPair pair
    cdef ReviveQueue q = two_points(&pair, 10, 20)
    q.ring[1].revive_ms = 5
    ring_finish_next(&q)


# ------------------------------------------------------------------- parked requests

cdef ParkedRequests one_parked(FetchPool pool, SharedArena memory):
    """A request is parked that holds 20 bytes; its record is being read."""
    cdef ParkedRequests x
    memset(&x, 0, sizeof(x))
    pool.open(&memory.arena, 4)
    x.requests[0] = <ParkedRequest*> calloc(1, sizeof(ParkedRequest))
    x.requests[0].fetch = pool.take_bare(NULL, NULL, NULL)
    x.requests[0].held_bytes = x.held_bytes = 20
    x.count = 1
    x.given = -1
    return x


def _parked_end():
    """One ends twice."""
    cdef FetchPool pool = FetchPool()
    cdef SharedArena memory = SharedArena(fetch_pool_arena_bytes(4))
    cdef ParkedRequests x = one_parked(pool, memory)
    cdef ParkedRequest* request = x.requests[0]
    parked_end(&x, pool, request)
    parked_end(&x, pool, request)


def _parked_read():
    """One goes back to those whose record is read, where it is already."""
    cdef FetchPool pool = FetchPool()
    cdef SharedArena memory = SharedArena(fetch_pool_arena_bytes(4))
    cdef ParkedRequests x = one_parked(pool, memory)
    x.read[0] = x.requests[0]
    x.read_count = 1
    parked_again(&x, x.requests[0])


def _parked_given():
    """The next request would find the record of the one before."""
    cdef FetchPool pool = FetchPool()
    cdef SharedArena memory = SharedArena(fetch_pool_arena_bytes(4))
    cdef ParkedRequests x = one_parked(pool, memory)
    x.read[0] = x.requests[0]
    x.read_count = 1
    x.given = 4096
    parked_begin(&x, pool)


def _parked_bytes():
    """One gives back more bytes than all of them hold."""
    cdef FetchPool pool = FetchPool()
    cdef SharedArena memory = SharedArena(fetch_pool_arena_bytes(4))
    cdef ParkedRequests x = one_parked(pool, memory)
    x.held_bytes = 10
    parked_end(&x, pool, x.requests[0])


def _parked_sum():
    """Bytes are left that no request holds."""
    cdef FetchPool pool = FetchPool()
    cdef SharedArena memory = SharedArena(fetch_pool_arena_bytes(4))
    cdef ParkedRequests x = one_parked(pool, memory)
    x.held_bytes = 30
    parked_end(&x, pool, x.requests[0])


# ------------------------------------------------------------------- pushed replies

cdef ReplyTable two_pushed(SharedArena memory):
    """Replies are under way to connections 7 and 8."""
    cdef ReplyTable table
    memset(&table, 0, sizeof(table))
    reply_table_open(&table, &memory.arena)
    reply_table_take(&table, reply_table_next(&table), 7)
    reply_table_take(&table, reply_table_next(&table), 8)
    return table


def _pushed_taken():
    """A slot is taken that has a reply."""
    cdef SharedArena memory = SharedArena(reply_table_arena_bytes())
    cdef ReplyTable table = two_pushed(memory)
    reply_table_take(&table, &table.slots[1], 9)


def _pushed_next():
    """A slot is taken that was free, but not the next one."""
    cdef SharedArena memory = SharedArena(reply_table_arena_bytes())
    cdef ReplyTable table = two_pushed(memory)
    reply_table_free(&table, &table.slots[0])
    reply_table_free(&table, &table.slots[1])
    reply_table_take(&table, &table.slots[0], 9)


def _pushed_freed():
    cdef SharedArena memory = SharedArena(reply_table_arena_bytes())
    cdef ReplyTable table = two_pushed(memory)
    reply_table_free(&table, &table.slots[1])
    reply_table_free(&table, &table.slots[1])


def _pushed_ends():
    """A reply ends, and none is under way."""
    cdef SharedArena memory = SharedArena(reply_table_arena_bytes())
    cdef ReplyTable table = two_pushed(memory)
    table.count = 0
    reply_table_free(&table, &table.slots[1])


def _pushed_count():
    cdef SharedArena memory = SharedArena(reply_table_arena_bytes())
    cdef ReplyTable table = two_pushed(memory)
    table.count = 3
    reply_table_check(&table)


def _pushed_free():
    """The list of free slots has lost one."""
    cdef SharedArena memory = SharedArena(reply_table_arena_bytes())
    cdef ReplyTable table = two_pushed(memory)
    reply_table_free(&table, &table.slots[0])
    table.first_free = -1
    reply_table_check(&table)


# ------------------------------------------------------------------- held pulls and pops

def _held_count():
    """A pull is released, and none is held."""
    cdef PullService s = PullService()
    cdef PullJob job
    memset(&job, 0, sizeof(job))
    job.state = JOB_HELD
    release_held(s, &job)


def _held_wheel():
    """Seen only by debug builds: the first pull that is held finds another one in the wheel."""
    cdef PullService s = PullService()
    cdef ChainEntry* line = NULL
    cdef ChainEntry other
    cdef Connection c
    cdef PullJob job
    memset(&other, 0, sizeof(other))
    memset(&c, 0, sizeof(c))
    memset(&job, 0, sizeof(job))
    other.previous = &other
    s.turn = TurnContext()
    s.timer_slots = <ChainEntry**> calloc(TIMER_SLOTS, sizeof(ChainEntry*))
    s.timer_slots[500] = &other
    job.state = JOB_READY
    job.connection = &c
    job.deadline_ms = 90
    hold_in(s, &job, &line)


cdef PopJob pop_of(PopPair* pair, int32_t kind):
    """A pop of all queues of a pair at which two wait."""
    cdef PopJob job
    memset(pair, 0, sizeof(PopPair))
    memset(&job, 0, sizeof(job))
    pair.waiting = 2
    job.pair = pair
    job.kind = kind
    job.queue_id = -1
    return job


def _pops_asleep():
    """A pop that was woken is over, and none is counted as awake."""
    cdef PopPair pair
    cdef PopJob job = pop_of(&pair, POP)
    job.woken = True
    pop_asleep(&job)


def _pops_special():
    """A notification leaves, and of those that wait none is counted as one."""
    cdef PopPair pair
    cdef PopJob job = pop_of(&pair, NOTIFY)
    pop_on_event(PopService(), &job.pull, JOB_LEFT)


def _pops_waiting():
    """A pop leaves the list as its last one, and one more is counted."""
    cdef PopPair pair
    cdef PopJob job = pop_of(&pair, POP)
    pop_on_event(PopService(), &job.pull, JOB_LEFT)


# ------------------------------------------------------------------- delay levels

def _level_first():
    """A turn would begin with a level that control has not set."""
    cdef DelayService s = DelayService()
    cdef Step step = schedule_step(s)
    s.turn = TurnContext()
    s.schedule.count = 2
    s.schedule.first = 5
    step.run(step.service)


def _level_jumps():
    """A message that was stored by a clock ahead of this one finds a level with a lost count."""
    cdef DelayService s = DelayService()
    s.schedule.count = 1
    s.schedule.levels[0].jump_count = -1
    due_ms(s, 0, 0, 1000, 1)


PLANTS = {
    "revive_places": _revive_places, "revive_waiting": _revive_waiting,
    "revive_kept": _revive_kept, "revive_over": _revive_over, "revive_number": _revive_number,
    "revive_once": _revive_once, "revive_bucket": _revive_bucket, "revive_order": _revive_order,
    "parked_end": _parked_end, "parked_read": _parked_read, "parked_given": _parked_given,
    "parked_bytes": _parked_bytes, "parked_sum": _parked_sum,
    "pushed_taken": _pushed_taken, "pushed_next": _pushed_next, "pushed_freed": _pushed_freed,
    "pushed_ends": _pushed_ends, "pushed_count": _pushed_count, "pushed_free": _pushed_free,
    "held_count": _held_count, "held_wheel": _held_wheel,
    "pops_asleep": _pops_asleep, "pops_special": _pops_special, "pops_waiting": _pops_waiting,
    "level_first": _level_first, "level_jumps": _level_jumps,
}
