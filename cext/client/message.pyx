"""Messages to send and messages received (message.pxd).

    >>> Message("orders", b"paid", tags="a", keys=["42", "43"]).properties
    {'TAGS': 'a', 'KEYS': '42 43'}

The unique key of a message is made when it is first sent, from this process' address, pid and a
random number (cext/wire/message_id.pxd); sending the same object again keeps it, so that a consumer
can tell a repeated send from another message.
"""
import math
import os
import secrets
import socket

cimport cython
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from cext.base.byteorder cimport load_i32, load_i64, load_u16, load_u32
from cext.base.checksum cimport body_crc
from cext.base.clock cimport wall_ms
from cext.client.reply cimport Reply, text_str
from cext.wire.codes cimport (
    BORNHOST_V6_FLAG, COMPRESSED_FLAG, COMPRESSION_LZ4_TYPE, COMPRESSION_TYPE_COMPARATOR,
    COMPRESSION_ZLIB_TYPE, COMPRESSION_ZSTD_TYPE, MAGIC_V1, MAGIC_V2,
    STOREHOSTADDRESS_V6_FLAG,
)
from cext.wire.limits cimport PROPERTIES_BYTES_MAX, RECORD_BYTES_MIN
from cext.wire.message_id cimport (
    MESSAGE_ID_BYTES_MAX, UniqueKeyMaker, unique_key_maker_open, write_offset_message_id,
    write_unique_key,
)
from cext.wire.properties cimport find_property
from cext.wire.text cimport Text

from cext.client.reply import reply_of
from cext.client.request import encode_request
from rmq.errors import MessageError, ProtocolError

cdef enum:
    BORN_HOST_AT = 48                # of its place in a record

cdef UniqueKeyMaker maker
cdef bint maker_is_open = False


def set_client_ip(bytes packed not None):
    """The address (4 or 16 bytes) that this process' unique keys begin with."""
    global maker_is_open
    if len(packed) not in (4, 16):
        raise ValueError("an address has 4 or 16 bytes")
    unique_key_maker_open(&maker, <const uint8_t*>packed, <uint32_t>len(packed),
                          <uint16_t>(os.getpid() & 0xFFFF), <uint32_t>secrets.randbits(32))
    maker.counter = <uint16_t>secrets.randbits(16)
    maker_is_open = True


def local_ip():
    """The address from which this machine reaches others; 127.0.0.1 when it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))        # sends nothing
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def after_fork():
    global maker_is_open
    maker_is_open = False


os.register_at_fork(after_in_child=after_fork)


MS_OF_1973 = 100_000_000_000
TIMES_MAX = 1 << 53             # ms; far beyond every clock, and exact in every client


cdef int refuse_marks(str name, str value) except -1:
    cdef Py_ssize_t name_bytes = 0, value_bytes = 0
    cdef const char* name_at = PyUnicode_AsUTF8AndSize(name, &name_bytes)
    cdef const char* value_at = PyUnicode_AsUTF8AndSize(value, &value_bytes)
    if (not name_bytes or memchr(name_at, 1, name_bytes) or memchr(name_at, 2, name_bytes)
            or memchr(value_at, 1, value_bytes) or memchr(value_at, 2, value_bytes)):
        raise MessageError(
            f"property {name[:80]!r}: names are not empty, and neither names nor values hold "
            "the characters \\x01 and \\x02"
        )
    return 0


cdef inline int32_t pair_size(str name, str value) except -1:
    cdef Py_ssize_t name_bytes = 0, value_bytes = 0
    PyUnicode_AsUTF8AndSize(name, &name_bytes)
    PyUnicode_AsUTF8AndSize(value, &value_bytes)
    if value_bytes > PROPERTIES_BYTES_MAX or name_bytes > PROPERTIES_BYTES_MAX:
        raise MessageError(f"property {name[:80]}: all have {PROPERTIES_BYTES_MAX} bytes")
    return <int32_t>(name_bytes + value_bytes) + 2


cdef inline uint8_t* write_pair(uint8_t* out, const char* name, Py_ssize_t name_bytes,
                                const char* value, Py_ssize_t value_bytes) noexcept:
    memcpy(out, name, name_bytes)
    out += name_bytes
    out[0] = 1
    memcpy(out + 1, value, value_bytes)
    out += 1 + value_bytes
    out[0] = 2
    return out + 1


@cython.freelist(256)
cdef class Message:
    """A message to send.

        Message("orders", b"paid", tags="a", keys=["42", "43"], delay_seconds=30)

    topic              where it goes
    body               bytes, or text that is sent as UTF-8; cannot be changed afterwards
    tags               one word by which brokers filter, or None
    keys               words by which the message is found again: text with blanks between, or list
    properties         names and values of your own
    flag               a number of your own
    delay_level        1 to 18: 1s 5s 10s 30s 1m .. 2h; 0: no delay
    delay_seconds      delivered after so many seconds, to the millisecond
    deliver_at         delivered at this moment: a datetime, or milliseconds since 1970
    sharding_key       messages with equal keys go to one queue and keep their order
    wait_store_msg_ok  False: the broker answers once the message is written, which survives a kill
                       of the broker but no power cut

    The first send gives the message its unique key (message_id), and sending the same object again
    keeps it, so that a consumer recognises the repetition. MessageError: no broker would take it.
    """

    def __init__(self, str topic not None, body, str tags=None, keys=None, *,
                 properties=None, int32_t flag=0, int delay_level=0, delay_seconds=None,
                 deliver_at=None, str sharding_key=None, bint wait_store_msg_ok=True):
        self.topic = topic
        self.body = body if type(body) is bytes else body_bytes(body)
        if tags is not None:
            refuse_marks("TAGS", tags)
        self.tags = tags
        if keys is not None:
            self.keys = keys
        self.flag = flag
        self.wait_store_msg_ok = wait_store_msg_ok
        if properties is not None:
            for name, value in properties.items():
                self.put_property(name, value)
        if delay_level:
            self.delay_level = delay_level
        if delay_seconds is not None:
            self.put_property("TIMER_DELAY_MS", str(delay_ms(delay_seconds)))
        if deliver_at is not None:
            self.put_property("TIMER_DELIVER_MS", str(delivery_ms(deliver_at)))
        if sharding_key is not None:
            self.put_property("__SHARDINGKEY", sharding_key)

    @property
    def keys(self):
        """The keys by which the message is found again, separated by blanks; None: no keys."""
        return self.joined_keys

    @keys.setter
    def keys(self, value):
        joined = value if value is None or isinstance(value, str) else " ".join(value)
        if joined is not None:
            refuse_marks("KEYS", joined)
        self.joined_keys = joined

    @property
    def delay_level(self):
        """The delay level, 1 to 18 (1s 5s 10s 30s 1m .. 2h); 0: the message is not delayed."""
        return int(self.extra.get("DELAY", 0)) if self.extra is not None else 0

    @delay_level.setter
    def delay_level(self, int level):
        if level < 0:
            raise MessageError(f"delay level {level}: 0 is none, 1 the shortest")
        self.put_property("DELAY", str(level))

    @property
    def sharding_key(self):
        """The key that chooses the queue: messages with equal keys go to one queue and keep their
        order. None: the producer chooses a queue."""
        return self.extra.get("__SHARDINGKEY") if self.extra is not None else None

    @property
    def message_id(self):
        """The unique key with which the message was sent; None before the first send."""
        if self.unique_bytes == 0:
            return None
        return (<const char*>self.unique)[:self.unique_bytes].decode()

    @property
    def properties(self):
        """A copy of all properties with which the message is sent, except its unique key."""
        found = {}
        if self.tags is not None:
            found["TAGS"] = self.tags
        if self.joined_keys is not None:
            found["KEYS"] = self.joined_keys
        if self.extra is not None:
            found.update(self.extra)
        return found

    def put_property(self, str name not None, value):
        """Sets a property; the value is stored as text. MessageError: it cannot be sent."""
        if value is None:
            raise MessageError(f"property {name[:80]!r} is None: leave it out, or give it text")
        text = value if isinstance(value, str) else str(value)
        refuse_marks(name, text)
        if name == "TAGS":
            self.tags = text
        elif name == "KEYS":
            self.joined_keys = text
        elif name == "UNIQ_KEY":
            self.take_unique(text)
        else:
            if self.extra is None:
                self.extra = {}
            self.extra[name] = text

    def get_property(self, str name not None, default=None):
        """The value of a property that is sent; `default` if the message has no such property."""
        return self.properties.get(name, default)

    def take_unique(self, str text not None):
        """Gives the message this unique key instead of a new one, for a message that is passed
        on."""
        data = text.encode()
        if not 0 < len(data) <= MESSAGE_ID_BYTES_MAX:
            raise MessageError(f"UNIQ_KEY of {len(data)} bytes: 1 to {MESSAGE_ID_BYTES_MAX}")
        memcpy(self.unique, <const char*>data, len(data))
        self.unique_bytes = <uint8_t>len(data)

    cdef void identify(self, int64_t now_ms) noexcept:
        if self.unique_bytes == 0:
            if not maker_is_open:
                set_client_ip(socket.inet_aton(local_ip()))
            self.unique_bytes = <uint8_t>write_unique_key(&maker, now_ms, self.unique)

    cdef int32_t properties_size(self) except -1:
        cdef int32_t size = 10 + self.unique_bytes
        if self.tags is not None:
            size += pair_size("TAGS", self.tags)
        if self.joined_keys is not None:
            size += pair_size("KEYS", self.joined_keys)
        if not self.wait_store_msg_ok:
            size += 11
        if self.extra is not None:
            for name, value in self.extra.items():
                size += pair_size(name, value)
                if size > PROPERTIES_BYTES_MAX:
                    break
        if size > PROPERTIES_BYTES_MAX:
            raise MessageError(f"properties of more than {PROPERTIES_BYTES_MAX} bytes")
        return size

    cdef uint8_t* write_properties(self, uint8_t* out) except NULL:
        cdef const char* name_at
        cdef const char* value_at
        cdef Py_ssize_t name_bytes = 0, value_bytes = 0
        out = write_pair(out, b"UNIQ_KEY", 8, <const char*>self.unique, self.unique_bytes)
        if self.tags is not None:
            value_at = PyUnicode_AsUTF8AndSize(self.tags, &value_bytes)
            out = write_pair(out, b"TAGS", 4, value_at, value_bytes)
        if self.joined_keys is not None:
            value_at = PyUnicode_AsUTF8AndSize(self.joined_keys, &value_bytes)
            out = write_pair(out, b"KEYS", 4, value_at, value_bytes)
        if not self.wait_store_msg_ok:
            out = write_pair(out, b"WAIT", 4, b"false", 5)
        if self.extra is not None:
            for name, value in self.extra.items():
                name_at = PyUnicode_AsUTF8AndSize(name, &name_bytes)
                value_at = PyUnicode_AsUTF8AndSize(value, &value_bytes)
                out = write_pair(out, name_at, name_bytes, value_at, value_bytes)
        return out

    def __reduce__(self):
        """A copy is the same message: it keeps the unique key of one that was sent."""
        return message_again, (
            type(self), self.topic, self.body, self.tags, self.joined_keys,
            None if self.extra is None else dict(self.extra), self.flag, self.wait_store_msg_ok,
            self.message_id,
        ), getattr(self, "__dict__", None)

    def __repr__(self):
        return f"Message({self.topic!r}, {len(self.body)} bytes, {self.properties})"


def message_again(kind, topic, body, tags, keys, extra, flag, wait_store_msg_ok, message_id):
    """The message that Message.__reduce__ took apart."""
    cdef Message message = kind.__new__(kind)
    Message.__init__(message, topic, body, tags, keys, properties=extra, flag=flag,
                     wait_store_msg_ok=wait_store_msg_ok)
    if message_id is not None:
        message.take_unique(message_id)
    return message


def body_bytes(body):
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    raise MessageError(f"a body is bytes or text, not {type(body).__name__}")


def milliseconds(when):
    """A number of ms since 1970, or a datetime, as ms since 1970."""
    return round(when.timestamp() * 1000) if hasattr(when, "timestamp") else int(when)


def delivery_ms(when):
    """For deliver_at: a moment in the past means at once; a number of seconds is a mistake."""
    if isinstance(when, bool) or not (hasattr(when, "timestamp") or is_number(when)):
        raise MessageError(f"deliver_at={when!r}: a datetime, or milliseconds since 1970")
    found = milliseconds(when)
    if not MS_OF_1973 <= found < TIMES_MAX:
        raise MessageError(f"deliver_at={when!r}: milliseconds since 1970, which now are "
                           f"{wall_ms()}; are these seconds?")
    return found


def is_number(value):
    """Also true for numpy numbers and Decimals; not for what float() cannot hold, or infinity."""
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):
        return False


def delay_ms(seconds):
    """For delay_seconds."""
    if isinstance(seconds, bool) or not is_number(seconds) or not (
            0 <= seconds < TIMES_MAX // 1000):
        raise MessageError(f"delay_seconds={seconds!r}: a number of seconds, 0 or more")
    return round(seconds * 1000)


def encoded_properties(Message message not None):
    """The property string as it is sent, with a unique key."""
    cdef bytes out
    message.identify(wall_ms())
    out = bytes(message.properties_size())
    message.write_properties(<uint8_t*><char*>out)
    return out


# ---------------------------------------------------------------- received messages

UNREAD = "a MessageExt is made from a broker's answer, and this one was not"

cdef object host_text(const uint8_t* at, bint is_v6):
    """"ip:port" of a stored host."""
    if at == NULL:
        raise MessageError(UNREAD)
    if is_v6:
        ip = socket.inet_ntop(socket.AF_INET6, (<const char*>at)[:16])
        return f"[{ip}]:{load_i32(at + 16)}"
    return f"{at[0]}.{at[1]}.{at[2]}.{at[3]}:{load_i32(at + 4)}"


def unpack_body(int sys_flag, bytes body not None):
    """The body as the sender gave it; ProtocolError if it cannot be unpacked, or has more than
    UNPACKED_BYTES_MAX then (rmq/format/packed_body.py)."""
    if not sys_flag & COMPRESSED_FLAG:
        return body
    kind = sys_flag & COMPRESSION_TYPE_COMPARATOR
    from rmq.format.packed_body import inflated, lz4_unpacked, zstd_unpacked
    try:
        if kind == 0 or kind == COMPRESSION_ZLIB_TYPE:
            return inflated(body)
        if kind == COMPRESSION_LZ4_TYPE:
            return lz4_unpacked(body)
        if kind == COMPRESSION_ZSTD_TYPE:
            return zstd_unpacked(body)
    except ImportError as error:
        raise ProtocolError(
            f"the body is packed; to unpack it install {error.name} (pip install "
            "'rmq[compression]')"
        ) from None
    except ValueError as error:         # all that packed_body raises for damage
        raise ProtocolError(f"a packed body that does not unpack: {error}") from None
    raise ProtocolError(f"a body packed in an unknown way ({kind:#x})")


@cython.freelist(512)
cdef class MessageExt:
    """A received message. Consumers get it from a broker's answer; it cannot be made by hand.

    topic, broker_name, queue_id, queue_offset   where the message is; `queue` has the first three
    reconsume_times      how often the group has failed to consume it so far
    flag                 the number that the sender gave
    sys_flag             RocketMQ's bits: whether the body is compressed, the state of a transaction
    born_timestamp       when the producer sent it, in milliseconds since 1970
    store_timestamp      when the broker stored it, in milliseconds since 1970
    commit_log_offset    the byte of the broker's log at which the record begins
    store_size           bytes of the record
    stored_body_bytes    bytes of the body as it is stored, perhaps packed
    prepared_transaction_offset    the log offset of its half message, in a transaction

    Body, properties and ids are read from the answer on first use.
    """

    def __init__(self):
        raise TypeError(UNREAD)

    @property
    def body(self):
        """The body as the sender gave it: unpacked, if it is stored packed."""
        if self.read_body is None:
            stored = (<const char*>self.body_at)[:self.stored_body_bytes]
            self.read_body = unpack_body(self.sys_flag, stored)
        return self.read_body

    @property
    def stored_body(self):
        """The body as it is stored, perhaps packed."""
        return (<const char*>self.body_at)[:self.stored_body_bytes]

    @property
    def stored_properties(self):
        """The property string as it is stored."""
        return (<const char*>self.properties_at)[:self.properties_bytes]

    @property
    def properties(self):
        """All properties by name. A change of this dict changes this object and nothing stored."""
        if self.read_properties is None:
            found = {}
            for pair in self.stored_properties.decode("utf-8", "replace").split("\x02"):
                name, mark, value = pair.partition("\x01")
                if mark and name and value:
                    found[name] = value
            self.read_properties = found
        return self.read_properties

    cdef object value_of(self, const char* name):
        cdef Text text
        if self.read_properties is not None:
            return self.read_properties.get(name.decode())
        if not find_property(self.properties_at, self.properties_bytes, name, &text):
            return None
        return text_str(&text)

    def get_property(self, str name not None, default=None):
        """The value of a property; `default` if the message has no such property."""
        value = self.value_of(name.encode())
        return default if value is None else value

    @property
    def tags(self):
        """The tag of the message, or None."""
        return self.value_of(b"TAGS")

    @property
    def keys(self):
        """The keys of the message, separated by blanks, or None."""
        return self.value_of(b"KEYS")

    @property
    def message_id(self):
        """The unique key that the sender gave the message; offset_message_id if it gave none."""
        return self.value_of(b"UNIQ_KEY") or self.offset_message_id

    @property
    def transaction_id(self):
        """The id of the message's transaction; outside of one its unique key, or None."""
        return self.value_of(b"__transactionId__") or self.value_of(b"UNIQ_KEY")

    @property
    def offset_message_id(self):
        """The broker's id of the message: the broker's address and the offset in its log."""
        cdef uint8_t out[MESSAGE_ID_BYTES_MAX]
        cdef uint32_t host_bytes = 20 if self.sys_flag & STOREHOSTADDRESS_V6_FLAG else 8
        cdef uint32_t length
        if self.store_host_at == NULL:
            raise MessageError(UNREAD)
        length = write_offset_message_id(out, self.store_host_at, host_bytes,
                                         self.commit_log_offset)
        return (<const char*>out)[:length].decode()

    @property
    def born_host(self):
        """"ip:port" of the producer that sent the message."""
        return host_text(self.born_host_at, self.sys_flag & BORNHOST_V6_FLAG)

    @property
    def store_host(self):
        """"ip:port" of the broker that stored the message."""
        return host_text(self.store_host_at, self.sys_flag & STOREHOSTADDRESS_V6_FLAG)

    @property
    def delay_level(self):
        """The delay level with which the message was sent; 0: none."""
        return int(self.value_of(b"DELAY") or 0)

    @property
    def queue(self):
        from rmq.format.fastjson import MessageQueue
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    def __reduce__(self):
        """A copy has its own record, and not the others that came with it in one answer."""
        if self.born_host_at == NULL:
            raise TypeError(UNREAD)
        record = (<const char*>self.born_host_at - BORN_HOST_AT)[:self.store_size]
        changed = None if self.read_properties is None else dict(self.read_properties)
        return received_again, (
            type(self), record, self.broker_name, self.topic, self.reconsume_times, changed,
            self.queue_id, self.queue_offset,
        ), getattr(self, "__dict__", None)

    def __repr__(self):
        return (f"MessageExt({self.topic!r}, {self.broker_name}, queue {self.queue_id}, offset "
                f"{self.queue_offset}, {self.stored_body_bytes} bytes)")


cdef int read_record(const uint8_t* at, uint32_t total, bint check_crc,
                     MessageExt out) except -1:
    """Sets the fields of `out` from one record, and compares every length with the bytes there."""
    cdef uint32_t magic = load_u32(at + 4), flags = load_u32(at + 36)
    cdef uint64_t where = BORN_HOST_AT, length
    out.store_size = total
    out.queue_id = load_i32(at + 12)
    out.flag = load_i32(at + 16)
    out.queue_offset = load_i64(at + 20)
    out.commit_log_offset = load_i64(at + 28)
    out.sys_flag = <int32_t>flags
    out.born_timestamp = load_i64(at + 40)
    out.born_host_at = at + where
    where += 20 if flags & BORNHOST_V6_FLAG else 8
    out.store_timestamp = load_i64(at + where)
    out.store_host_at = at + where + 8
    where += 8 + (20 if flags & STOREHOSTADDRESS_V6_FLAG else 8)
    if where + 16 + 3 > total:
        raise ProtocolError(f"a record of {total} bytes ends inside its fixed part")
    out.reconsume_times = load_i32(at + where)
    out.prepared_transaction_offset = load_i64(at + where + 4)
    out.stored_body_bytes = load_u32(at + where + 12)
    where += 16
    out.body_at = at + where
    if out.stored_body_bytes > total - where - 3:
        raise ProtocolError(f"a body of {out.stored_body_bytes} bytes in a record of {total}")
    where += out.stored_body_bytes
    if check_crc and body_crc(out.body_at, out.stored_body_bytes) != load_u32(at + 8):
        raise ProtocolError("a body that does not match its checksum")
    if magic == <uint32_t>MAGIC_V1:
        length = at[where]
        where += 1
    elif magic == <uint32_t>MAGIC_V2:
        length = load_u16(at + where)
        where += 2
    else:
        raise ProtocolError(f"not a message: magic {magic:08X}")
    if where + length + 2 > total:
        raise ProtocolError(f"a topic of {length} bytes in a record of {total}")
    if out.topic is None:
        out.topic = (<const char*>at + where)[:length].decode("utf-8", "replace")
    where += length
    out.properties_bytes = load_u16(at + where)
    out.properties_at = at + where + 2
    if where + 2 + out.properties_bytes != total:
        raise ProtocolError(f"a record of {total} bytes whose fields end elsewhere")
    return 0


cdef list messages_of(Reply reply, str broker_name, bint check_crc):
    cdef const uint8_t* at = reply.body_at
    cdef uint32_t left = reply.body_bytes, total
    cdef MessageExt message
    cdef list found = []
    cdef str topic = None
    cdef const uint8_t* topic_at = NULL
    cdef uint32_t topic_bytes = 0, length
    while left:
        if left < RECORD_BYTES_MIN:
            raise ProtocolError(f"a record of at least {RECORD_BYTES_MIN} bytes, {left} left")
        total = load_u32(at)
        if not RECORD_BYTES_MIN <= total <= left:
            raise ProtocolError(f"a record of {total} bytes, {left} left")
        message = MessageExt.__new__(MessageExt)
        message.owner = reply
        message.broker_name = broker_name
        # The topic of the message before, if the bytes are the same: it stands at the same distance
        # from the properties.
        message.topic = topic
        read_record(at, total, check_crc, message)
        length = <uint32_t>(message.properties_at - 2 - message.body_at
                            - message.stored_body_bytes)
        if topic is None:
            topic = message.topic
        elif length != topic_bytes or memcmp(topic_at, message.properties_at - 2 - length,
                                             length) != 0:
            message.topic = None
            read_record(at, total, False, message)
            topic = message.topic
        topic_bytes = length
        topic_at = message.properties_at - 2 - length
        found.append(message)
        at += total
        left -= total
    return found


def decode_messages(Reply reply not None, str broker_name not None="", bint check_crc=False):
    """The messages in an answer to a pull, a query or a view, or in a broker's request."""
    return messages_of(reply, broker_name, check_crc)


def decode_pulled(Reply reply not None, str broker_name not None, int32_t queue_id):
    """The messages in an answer to a pull of this queue. Messages of a logical queue (of a static
    topic) get its number and offsets, which are not in their records."""
    cdef MessageExt message
    cdef int64_t delta
    cdef list found = messages_of(reply, broker_name, False)
    given = reply.int_field("offsetDelta", None)
    if given is not None:
        delta = given
        for message in found:
            message.queue_id = queue_id
            message.queue_offset += delta
    return found


def received_again(kind, bytes record not None, str broker_name, str topic, int reconsume_times,
                   dict changed, int32_t queue_id, int64_t queue_offset):
    """The message that MessageExt.__reduce__ took apart; ProtocolError when it is no record."""
    cdef MessageExt message = kind.__new__(kind)
    cdef Reply reply = reply_of(encode_request(0, body=record))
    if len(record) < RECORD_BYTES_MIN or load_u32(reply.body_at) != len(record):
        raise ProtocolError(f"not a record: {len(record)} bytes")
    message.owner = reply
    message.broker_name = broker_name
    message.topic = topic
    read_record(reply.body_at, <uint32_t>len(record), False, message)
    message.reconsume_times = reconsume_times
    message.read_properties = changed
    message.queue_id = queue_id             # in a logical queue they differ from the record's
    message.queue_offset = queue_offset
    return message
