"""Delay service. See delay_service.pxd."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.flow.delay.recall_table cimport recall_close
from cext.flow.delay.timer cimport CLOCK_WALL, TIMER_CLOCKS
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.memory.name_map cimport name_map_find
from cext.store.timers.timer_heap cimport timer_heap_close
from cext.store.timers.timer_position cimport position_close
from cext.wire.system_topics cimport TIMER_TOPIC, TIMER_TOPIC_BYTES


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class DelayService:
    def __cinit__(self):
        self.timers.file.fd = -1

    # No open(): what timers need is taken by timers_open(), which is given the store.
    cdef void close(self) noexcept:
        cdef int32_t i
        for i in range(TIMER_CLOCKS):
            timer_heap_close(&self.timers.clocks[i].heap)
            recall_close(&self.timers.clocks[i].recalled)
        position_close(&self.timers.file)
        self.timers.started = False

    cdef dict stats(self):
        return {
            "delayed_delivered": self.schedule.delivered,
            "delayed_fetches": self.schedule.readahead.fetches,
            "delayed_dropped": self.schedule.dropped,
            **timer_stats(self),
        }


cdef Queue* timer_queue(DelayService s) noexcept nogil:
    cdef Topic* topic = <Topic*> name_map_find(&s.tables.topics, <const uint8_t*> TIMER_TOPIC,
                                               TIMER_TOPIC_BYTES)
    return topic_queue(topic, s.append.queues, 0) if topic != NULL else NULL


cdef dict timer_stats(DelayService s):
    cdef Timers* x = &s.timers
    cdef Queue* queue = timer_queue(s)
    cdef int64_t late_ms = 0
    cdef int32_t i
    out = {"timers_waiting": 0,
           "timers_behind": max(queue.max_offset - x.fed, 0) if x.started and queue != NULL else 0}
    for i in range(TIMER_CLOCKS if x.started else 0):
        out["timers_waiting"] += x.clocks[i].heap.count
        if x.clocks[i].heap.count > 0:
            late_ms = max(late_ms, x.clocks[i].now_ms - x.clocks[i].heap.entries[0].key.due_ms)
    out |= {"timers_late_ms": late_ms, "timers_delivered": x.delivered,
            "timers_recalled": x.recalled, "timers_rolled": x.rolled,
            "timers_dropped": x.dropped, "timers_fetches": x.readahead.fetches,
            "timers_fed": x.fed, "timers_ready": int(x.ready),
            "timers_before_ms": x.position.before[CLOCK_WALL].due_ms}
    if x.started:
        out["timers_broken"] = int(s.wall_keeper.is_broken() or s.steady_keeper.is_broken())
        for keeper in (s.wall_keeper, s.steady_keeper):
            for name, number in keeper.counters().items():
                out[f"timers_{name}"] = out.get(f"timers_{name}", 0) + number
    return out
