"""State: the memory of the client's engine (declarations; no .pyx). Read this page first.

    Python thread (has the GIL)                engine thread (never has it)
      takes a Slot, writes the frame             out = fill; send(); recv(); find frame, header;
      into its Link's fill buffer     -- lock -->  slot of that opaque; result into the slot
      ... later takes finished slots <- mailbox -  slot into its Mailbox, wakes a waiting thread
      callbacks, then the slot is free again

A slot is one request under way: of one message, of a batch, or of anything else. Its index and a
count of its uses make the opaque of the request:

    opaque = generation << 14 | index        slot 5, third use: 3 << 14 | 5 = 49157

Slots are reused first in, first out, so that an answer that comes too late finds another generation
and is dropped. A slot holds counted references to Python objects (token, message, callback, owner):
the thread that submits adds them, the thread that takes the finished slot gives them back, and the
engine only carries them. A thread that tells an end first takes everything out of the slot, because
a request that is sent meanwhile may get the slot.

`lock` of the engine guards: the free list, addresses, fill buffers, dirty links, open batches,
`sleeping`. It is held for the time of a copy, and never during a system call. Everything else of a
Link belongs to the engine thread alone. A mailbox has a lock of its own, taken last.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.native_thread cimport NativeThread
from cext.client.mutex cimport Condition, Lock
from cext.net.socket_api cimport sockaddr_storage

cdef enum:
    SLOT_BITS = 14
    SLOTS = 1 << SLOT_BITS           # most requests under way, over all links
    SLOT_MASK = SLOTS - 1
    LINKS_MAX = 4096                 # addresses that a process ever talks to
    SLOT_ID_BYTES = 32               # an offset message id that fits beside the slot
    OPAQUE_AT = 13                   # in a frame with a binary header
    BORN_DIGITS = 13                 # of the born time of a batch, in ms

cdef enum:  # what is kept of the answer
    KEEP_FRAME = 0                   # the whole frame
    KEEP_SEND = 1                    # id and offset of a stored message; else the whole frame

cdef enum:  # how a request ended
    ANSWERED = 1
    LOST = 2                         # no connection, or it broke; code is the errno
    LATE = 3                         # no answer in time
    STOPPED = 4                      # the engine was stopped
    ASKED = 5                        # not an end: a broker's request; frame and link are set
    DROPPED = 6                      # not an end: a connection broke; link, code (errno) set

cdef enum:  # states of a link
    LINK_IDLE = 0                    # not connected; the next frame connects it
    LINK_CONNECTING = 1
    LINK_OPEN = 2


cdef struct Slot:
    Slot* next                       # in the free list, in a mailbox, or in the engine's stage
    MailboxState* mailbox            # where its end is told; borrowed from owner
    void* owner                      # PyObject*: the Mailbox; keeps `mailbox` alive
    void* token                      # PyObject*: Waiter, callable, or the Target of a send
    void* message                    # PyObject*: the message of a single send
    void* callback                   # PyObject*: of a single send
    Batch* batch                     # owned; the messages of a batch send
    uint8_t* frame                   # owned (malloc); NULL when nothing was kept
    uint32_t frame_bytes
    int32_t opaque                   # 0: free, or not a request (ASKED, DROPPED)
    int32_t generation
    int32_t index
    int32_t link
    int64_t deadline_us
    int64_t started_us
    uint64_t number                  # of its frame; grows with each frame sent
    int64_t queue_offset             # KEEP_SEND
    int32_t code                     # of the answer, or an errno
    int32_t queue_id                 # KEEP_SEND
    uint8_t keep
    uint8_t outcome
    uint8_t attempts                 # tries before this one
    uint8_t id_bytes                 # KEEP_SEND: 0 when the frame was kept
    bint framed                      # its frame is in a buffer or beyond; an open batch's is not
    bint on_heap                     # malloc'd for ASKED or DROPPED, not of the table
    uint8_t id[SLOT_ID_BYTES]


cdef struct MailboxState:
    Lock lock
    Condition filled
    Slot* first
    Slot* last
    Slot* staged_first               # engine thread only
    Slot* staged_last
    MailboxState* next_staged        # engine thread only
    int event_fd                     # signalled when filled; -1: nobody polls
    int waiters                      # threads asleep in `filled`
    bint is_staged                   # engine thread only
    bint closed                      # nobody waits here any longer
    bint signalled                   # event_fd was written and not drained yet


cdef struct Batch:
    Batch* next                      # open batches
    Slot* slot
    uint8_t* bytes                   # owned: messages as cext/wire/batch.pxd has them
    uint32_t used
    uint32_t capacity
    uint32_t limit                   # sealed at this size
    const uint8_t* head              # frame and header; borrowed from the Target (slot.token)
    uint32_t head_bytes
    uint32_t born_at                 # place of the BORN_DIGITS of the born timestamp in head
    int32_t timeout_ms
    int64_t due_us                   # latest time to seal it
    void** items                     # owned array of PyObject*: message, callback, message, ...
    uint32_t count                   # messages
    uint32_t items_capacity          # messages
    uint64_t body_bytes
    bint sealed


cdef struct Link:
    int32_t index
    int fd                           # -1: none
    int32_t state                    # by state_move()
    sockaddr_storage address         # lock: of the next connection; names are looked up again,
    uint32_t address_bytes           # lock: because hosts move
    int64_t connect_until_us
    bint wants_room                  # EPOLLOUT is asked for
    bint dirty                       # lock: something is in fill or out; on the engine's list
    Link* next_dirty                 # lock
    uint8_t* fill                    # lock: frames not yet taken over
    uint64_t fill_used
    uint64_t fill_capacity
    uint8_t* out                     # frames being sent
    uint64_t out_start
    uint64_t out_end
    uint64_t out_capacity
    uint8_t* input
    uint64_t input_start
    uint64_t input_end
    uint64_t input_capacity
    uint8_t* large                   # memory of its own for a long frame; NULL: none
    uint32_t large_bytes
    uint32_t large_have
    int given_fd                     # lock: an open descriptor to take over, -1: none
    bint only_given                  # (TLS) never connects by itself: waiting frames are lost
    bint has_answered                # a frame has come from this address
    int64_t last_heard_us
    int64_t frame_began_us      # when the incoming frame began; 0: none is coming


cdef struct EngineState:
    Lock lock
    Condition slots_freed            # lock
    Condition room_made              # lock: frames of a link were sent, or lost
    NativeThread thread
    int epoll_fd
    int wake_fd
    int32_t stopping                 # atomic
    bint sleeping                    # lock: the thread must be woken
    int64_t sleep_until_us           # lock: when it wakes by itself
    bint closed                      # lock: no more requests are taken
    Slot* slots                      # owned: SLOTS of them
    Slot* free_first                 # lock
    Slot* free_last                  # lock
    uint32_t free_count              # lock
    uint32_t slot_waiters            # lock
    uint32_t room_waiters            # lock
    Link* links[LINKS_MAX]           # owned
    int32_t link_count               # lock
    Link* dirty_first                # lock
    Batch* open_first                # lock
    MailboxState* notices            # borrowed from the Engine; for ASKED and DROPPED
    void* notices_owner              # PyObject*, borrowed from the Engine
    MailboxState* staged_first       # engine thread only
    int64_t next_deadline_us         # lock: no slot's deadline is earlier
    int64_t connect_timeout_us
    uint64_t frames_sent
    uint64_t frames_received
    uint64_t stale_answers           # to requests that are no longer under way
