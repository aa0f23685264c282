"""Topics as the hot path knows them. See topic_table.pxd."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from cext.base.check cimport check
from cext.memory.name_map cimport (
    NameEntry,
    name_map_close,
    name_map_find,
    name_map_next,
    name_map_put,
    name_map_remove,
)
from cext.memory.use_count cimport free_removed, removed_list_add
from cext.wire.limits cimport TOPIC_QUEUES_MAX
from cext.wire.system_topics cimport topic_kind


cdef Topic* topic_put(NameMap* topics, const uint8_t* name, uint32_t length, int32_t read_queues,
                      int32_t write_queues, int32_t permission, bint order) noexcept nogil:
    """Adds or changes a topic; NULL when memory is out or a count is out of range."""
    cdef Topic* topic = <Topic*> name_map_find(topics, name, length)
    cdef Queue** queues
    cdef int32_t slots = read_queues if read_queues > write_queues else write_queues
    if read_queues < 0 or write_queues < 0 or slots > TOPIC_QUEUES_MAX:
        return NULL
    if topic == NULL:
        topic = <Topic*> calloc(1, sizeof(Topic))
        if topic == NULL:
            return NULL
        topic.name = <uint8_t*> malloc(length + 1)
        if topic.name == NULL:
            free(topic)
            return NULL
        memcpy(topic.name, name, length)
        topic.name[length] = 0
        topic.name_length = length
        topic.kind = topic_kind(name, length)
        if name_map_put(topics, name, length, topic) != 0:
            free(topic.name)
            free(topic)
            return NULL
    if slots > topic.queue_slots:
        queues = <Queue**> realloc(topic.queues, slots * sizeof(Queue*))
        if queues == NULL:
            return NULL
        memset(queues + topic.queue_slots, 0, (slots - topic.queue_slots) * sizeof(Queue*))
        topic.queues = queues
        topic.queue_slots = slots
    topic.read_queues = read_queues
    topic.write_queues = write_queues
    topic.permission = permission
    topic.order = order
    return topic


cdef void topic_destroy(UseCount* object) noexcept nogil:
    cdef Topic* topic = <Topic*> object
    free(topic.queues)
    free(topic.mapping)
    free(topic.name)
    free_removed(topic, sizeof(Topic))


cdef void topic_remove(NameMap* topics, RemovedList* removed, Topic* topic) noexcept nogil:
    check(topic.counters == NULL and topic.pop_waiting == NULL,
          b"a topic is removed after its counters and pairs", topic.counters != NULL,
          topic.pop_waiting != NULL)
    name_map_remove(topics, topic.name, topic.name_length)
    topic.queue_slots = 0
    topic.pop_retry_of = NULL
    removed_list_add(removed, &topic.use, topic_destroy)


cdef void topics_close(NameMap* topics) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t cursor = name_map_next(topics, 0, &entry)
    while cursor != 0:
        topic_destroy(<UseCount*> entry.value)
        cursor = name_map_next(topics, cursor, &entry)
    name_map_close(topics)


cdef Queue* topic_queue(Topic* topic, QueueStore store, int32_t queue_id) noexcept nogil:
    if queue_id < 0 or queue_id >= topic.queue_slots:
        return NULL
    if topic.queues[queue_id] == NULL:
        topic.queues[queue_id] = store.open_queue(<const char*> topic.name, topic.name_length,
                                                  queue_id)
    return topic.queues[queue_id]
