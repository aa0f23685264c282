"""Tables. See tables.pxd."""
cimport cython

from cext.base.status cimport OK
from cext.flow.context.service cimport no_memory
from cext.flow.tables.group_table cimport group_table_close, group_table_open
from cext.flow.tables.offset_table cimport offset_table_close, offset_table_open
from cext.flow.tables.sql_filter cimport expressions_close, expressions_open
from cext.flow.tables.subscription_table cimport (
    subscription_table_close,
    subscription_table_open,
)
from cext.flow.tables.topic_table cimport topics_close
from cext.memory.arena cimport Arena
from cext.memory.name_map cimport name_map_open
from cext.memory.use_count cimport removed_list_close


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class Tables:
    cdef int open(self, Arena* arena, dict given) except -1:
        if (group_table_open(&self.groups) != OK
                or subscription_table_open(&self.subscriptions) != OK
                or expressions_open(&self.expressions) != OK
                or offset_table_open(&self.offsets) != OK
                or name_map_open(&self.topics) != OK):
            no_memory("the tables")
        return 0

    cdef void close(self) noexcept:
        group_table_close(&self.groups)
        subscription_table_close(&self.subscriptions)
        expressions_close(&self.expressions)
        offset_table_close(&self.offsets)
        topics_close(&self.topics)
        removed_list_close(&self.removed)

    cdef dict stats(self):
        return {
            "topics": self.topics.live,
            "removed_waiting": self.removed.waiting,
            "removed_freed": self.removed.freed,
        }
