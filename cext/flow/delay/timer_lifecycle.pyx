"""Timed messages at the start and the stop of a shard. See timer_lifecycle.pxd.

    DIR/rmqTimers/wall, steady      files of the two clocks (cext/store/timers/timer_keeper.pxd)
    DIR/rmqTimers/position          cext/store/timers/timer_position.pxd
    DIR/config/timercheck           Apache RocketMQ's: read when there is no position, or only one
                                    from before this file, so that a store taken over from it
                                    delivers nothing twice; written at a stop, with the oldest
                                    message that still waits: Apache reads the queue from there on
"""
import logging
import os
import pathlib
import shutil

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from cext.base.clock cimport boot_ms, wall_ms
from cext.base.status cimport OK
from cext.flow.delay.delay_service cimport timer_queue
from cext.flow.delay.recall_table cimport recall_add, recall_close
from cext.flow.delay.timer cimport CLOCK_STEADY, CLOCK_WALL, HEAP_ENTRIES, TIMER_CLOCKS, Timers
from cext.flow.delay.timer_feed cimport timer_parse
from cext.flow.delay.timer_turn cimport timer_seal_all
from cext.flow.fetch.readahead cimport readahead_open
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue, QueueEntry
from cext.store.timers.timer_heap cimport TIMER_NEVER, TimerEntry, timer_heap_open, timer_offset
from cext.store.timers.timer_keeper cimport TimerKeeper
from cext.store.timers.timer_position cimport position_open
from cext.wire.properties cimport SendProperties

from cext.store.log.checkpoint import boot_id
from rmq.base import atomic_file
from rmq.base.durable_directory import make_directory
from rmq.errors import StoreError

cdef enum:
    SLOT_MS = 1000              # of Apache's wheel
    FIRED_AHEAD_MS = 60_000     # beyond the time of Apache's file: clocks differ
    POSITION_BYTES_MIN = 1024   # of the position file, which always has that length
    STEP_MS = 5                 # a smaller step of the clock does not count, as in schedule.pyx

log = logging.getLogger("rmq.timers")


cdef timers_open(DelayService s, dict given):
    cdef Timers* x = &s.timers
    cdef int32_t i
    cdef bytes path
    cdef int64_t log_end = s.append.log.marks.written
    x.file.fd = -1
    readahead_open(&x.readahead, &x.next_check_ms)
    x.max_delay_ms = given["timer_max_delay_ms"]
    x.precision_ms = given["timer_precision_ms"]
    x.roll_ms = given["timer_roll_ms"]
    x.enabled = given["timers"]
    if not x.enabled:
        return
    root = pathlib.Path(given["root"], "rmqTimers")
    is_cut = root.exists() and (not (root / "position").exists()
                                or (root / "position").stat().st_size < POSITION_BYTES_MIN)
    make_directory(root)
    for i in range(TIMER_CLOCKS):
        if timer_heap_open(&x.clocks[i].heap, HEAP_ENTRIES) != OK:
            raise MemoryError("no memory for timers")
        x.clocks[i].parked.due_ms = TIMER_NEVER
        x.clocks[i].last.due_ms = -1
    path = os.fsencode(root / "position")
    if position_open(&x.file, path, log_end, &x.recovered) != OK:
        raise StoreError(f"{root / 'position'} cannot be opened or has no room on the disk")
    tell_position(x, root, is_cut)
    take_over(x, pathlib.Path(given["root"]))
    set_steady(x)
    x.position = x.recovered
    s.wall_keeper = TimerKeeper(s.append.log, str(root / "wall"), HEAP_ENTRIES)
    s.steady_keeper = TimerKeeper(s.append.log, str(root / "steady"), HEAP_ENTRIES)
    known = s.wall_keeper.open(log_end, x.recovered.before[CLOCK_WALL].due_ms,
                               x.recovered.before[CLOCK_WALL].place)
    known = s.steady_keeper.open(log_end, x.recovered.before[CLOCK_STEADY].due_ms,
                                 x.recovered.before[CLOCK_STEADY].place) and known
    for keeper in (s.wall_keeper, s.steady_keeper):
        if keeper.damage is not None:
            log.warning("%s: timed messages are read again from the "
                        "beginning of rmq_sys_wheel_timer", keeper.damage)
    x.fed = min(s.wall_keeper.covers, s.steady_keeper.covers) if known else 0
    take_passed(s, CLOCK_WALL, s.wall_keeper.passed)
    take_passed(s, CLOCK_STEADY, s.steady_keeper.passed)
    x.clock_moved = True
    x.started = True


cdef take_passed(DelayService s, int32_t number, list passed):
    """Adds deletions from the files that were passed less than a second before the stop."""
    cdef TimerEntry deletion
    cdef RecordView view
    cdef SendProperties found
    cdef bytes record
    for due_ms, place, size in passed:
        record = s.append.log.read_record(place)
        if record is None or not timer_parse(s, <const uint8_t*> <const char*> record, place, size,
                                             True, &view, &found):
            log.warning("a recall at log offset %d cannot be read: the message may come", place)
            continue
        deletion.key.due_ms = due_ms
        deletion.key.place = place
        deletion.size = size
        deletion.flags = 0
        recall_add(&s.timers.clocks[number].recalled, &found.timer_delete_key, &deletion)


cdef tell_position(Timers* x, object root, bint is_cut):
    """Logs what is wrong with the file of the position."""
    if x.file.found:
        if x.file.damaged:
            log.warning("%s is damaged: what is whole in it is used; timed messages that were "
                        "delivered since come again", root / "position")
    elif x.file.damaged or is_cut:
        log.warning("%s is damaged or missing: timed messages that were delivered since "
                    "config/timercheck, or since the beginning of rmq_sys_wheel_timer, come again",
                    root / "position")


cdef take_over(Timers* x, object root):
    """If Apache RocketMQ had the store last: takes over what it has fired, and how much of the
    queue it has taken in. Its file has no checksum, so impossible values are not believed: they
    would leave timed messages out."""
    path = root / "config" / "timercheck"
    try:
        numbers = path.read_bytes()[:24]
        written_ms = int(path.stat().st_mtime * 1000)
    except OSError:
        return
    # A stop of this broker removes Apache's wheel, and Apache makes it as soon as it has the store.
    if x.file.found and not (root / "timerlog").exists() and not any(root.glob("timerwheel*")):
        return
    fired_ms = int.from_bytes(numbers[:8], "big", signed=True)
    taken = int.from_bytes(numbers[16:24], "big", signed=True)
    if (len(numbers) < 24 or not 0 <= fired_ms <= written_ms + FIRED_AHEAD_MS
            or not 0 <= taken < 1 << 50):
        log.warning("%s is damaged and not used: it says that timers up to %d (ms) have fired and "
                    "%d were taken in", path, fired_ms, taken)
        return
    if fired_ms == 0:
        return
    # A file that this broker wrote at a stop is never beyond its position. If this file is, Apache
    # has had the store since.
    if x.recovered.fed > 0 and fired_ms + 1 <= x.recovered.before[CLOCK_WALL].due_ms:
        return
    # Due times in a slot are in the second after it; slots before fired_ms have fired.
    x.recovered.before[CLOCK_WALL].due_ms = fired_ms + 1
    x.recovered.before[CLOCK_STEADY].due_ms = fired_ms + 1 + x.recovered.shift_ms
    x.recovered.before[CLOCK_WALL].place = x.recovered.before[CLOCK_STEADY].place = 0
    x.recovered.fed = taken
    log.info("timed messages go on from config/timercheck: %d taken in, fired up to %d", taken,
             fired_ms)


cdef void set_steady(Timers* x):
    """Sets the steady clock: as it was, and on this boot not moved by steps of the wall clock."""
    cdef int64_t boot = int.from_bytes(boot_id()[:8], "big", signed=True)
    cdef int64_t wall = wall_ms()
    cdef int64_t base_ms = wall - boot_ms()
    while wall_ms() != wall:                # interrupted between the two clocks
        wall = wall_ms()
        base_ms = wall - boot_ms()
    x.shift_ms = x.recovered.shift_ms
    if x.recovered.boot == boot and not -STEP_MS <= base_ms - x.recovered.base_ms <= STEP_MS:
        x.shift_ms -= base_ms - x.recovered.base_ms
    x.recovered.boot = boot


cdef timers_start(DelayService s):
    if s.timers.started:
        s.wall_keeper.set_position(&s.timers.file, CLOCK_WALL)
        s.steady_keeper.set_position(&s.timers.file, CLOCK_STEADY)
        s.wall_keeper.start()
        s.steady_keeper.start()


cdef timers_stop(DelayService s):
    if not s.timers.started:
        return
    s.wall_keeper.stop()                # writes what was sealed
    s.steady_keeper.stop()
    if s.timers.ready and not s.append.log.poisoned():
        timer_seal_all(s)
    s.wall_keeper.finish()
    s.steady_keeper.finish()
    if s.timers.ready and not s.append.log.poisoned():
        hand_over(s)
    s.timers.started = False


cdef int64_t oldest_waiting(DelayService s):
    """An offset in the queue before which no message waits."""
    cdef Queue* queue = timer_queue(s)
    cdef QueueEntry entry
    cdef int64_t place = min(s.wall_keeper.oldest(), s.steady_keeper.oldest())
    cdef int64_t low, high, middle
    cdef int32_t i
    cdef int64_t n
    for i in range(TIMER_CLOCKS):
        for n in range(s.timers.clocks[i].heap.count):
            place = min(place, timer_offset(&s.timers.clocks[i].heap.entries[n]))
    if queue == NULL:
        return s.timers.fed
    low, high = queue.min_offset, min(s.timers.fed, queue.max_offset)
    while low < high:
        middle = (low + high) // 2
        if s.append.queues.read(queue, middle, 1, &entry) != 1:
            return queue.min_offset         # not in memory: rather too early than too late
        if entry.physical_offset < place:
            low = middle + 1
        else:
            high = middle
    return low


cdef hand_over(DelayService s):
    """Tells Apache RocketMQ how far delivery is; its own timer files are out of date."""
    cdef int64_t before_ms = min(s.timers.position.before[CLOCK_WALL].due_ms,
                                 s.timers.position.before[CLOCK_STEADY].due_ms
                                 - s.timers.shift_ms)
    root = pathlib.Path(s.wall_keeper.directory).parent.parent
    offset = oldest_waiting(s)
    numbers = (max(before_ms - 1, 0) // SLOT_MS * SLOT_MS, 0, offset, offset, 0, wall_ms(), 1)
    atomic_file.replace(root / "config" / "timercheck",
                        b"".join(number.to_bytes(8, "big") for number in numbers))
    (root / "timerwheel").unlink(missing_ok=True)
    shutil.rmtree(root / "timerlog", ignore_errors=True)


cdef timers_reopen(DelayService s, bint is_damaged):
    cdef Timers* x = &s.timers
    cdef int32_t i
    if is_damaged:
        log.error("a file of timers is damaged: all are made anew from rmq_sys_wheel_timer")
    for i, keeper in enumerate((s.wall_keeper, s.steady_keeper)):
        keeper.stop()
        keeper.forget()
        keeper.open(s.append.log.durable(), x.position.before[i].due_ms, x.position.before[i].place)
        keeper.start()


cdef void timers_pause(DelayService s) noexcept nogil:
    s.timers.started = False


cdef void timers_resume(DelayService s) noexcept nogil:
    cdef int32_t i
    for i in range(TIMER_CLOCKS):
        s.timers.clocks[i].heap.count = 0
        recall_close(&s.timers.clocks[i].recalled)      # read from the queue again
        s.timers.clocks[i].parked_count = s.timers.clocks[i].unsealed = 0
        s.timers.clocks[i].parked.due_ms = TIMER_NEVER
        s.timers.clocks[i].awaited_ms = 0
        s.timers.recovered.before[i] = s.timers.position.before[i]
    s.timers.recovered.fed = s.timers.position.fed
    memset(s.timers.fresh, 0, sizeof(s.timers.fresh))   # the queue may be another master's by now
    s.timers.fed = 0
    s.timers.ready = False
    s.timers.started = True


cdef bint timer_option(DelayService s, str name, value):
    if name == "timer_max_delay_sec":
        s.timers.max_delay_ms = value * 1000
    elif name == "timer_roll_ms":
        s.timers.roll_ms = value
    else:
        return False
    return True
