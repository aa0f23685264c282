"""Load probe: what the load generator makes of answers, as Python values."""
from libc.stdint cimport uint8_t

from cext.base.status cimport Status
from cext.load.pop_acks cimport ACK_BITS_TEXT, AckRow, AckTexts, ack_bits_text, next_ack_row
from cext.load.records cimport Walk, since_number, unique_number, walk_records


def ack_rows(bytes starts not None, bytes offsets not None):
    """(retry, queue, start, messages, bits in base64) of each check point; or ValueError."""
    cdef AckTexts texts
    cdef AckRow row
    cdef char text[ACK_BITS_TEXT]
    cdef int status
    texts.starts = <const uint8_t*><char*>starts
    texts.starts_length = len(starts)
    texts.offsets = <const uint8_t*><char*>offsets
    texts.offsets_length = len(offsets)
    texts.at = 0
    found = []
    while True:
        status = next_ack_row(&texts, &row)
        if status == Status.NOT_FOUND:
            return found
        if status != Status.OK:
            raise ValueError(f"check point {len(found)} is broken")
        ack_bits_text(&row, text)
        found.append((chr(row.retry), row.queue_id, row.start, row.count, (<bytes>text).decode()))


def records_walked(bytes data not None, expected_offset, check_crc=True):
    """(count, body bytes, last queue offset) of the records; ValueError when one is wrong."""
    cdef Walk walk
    cdef int status = walk_records(<const uint8_t*>data, len(data), expected_offset, check_crc,
                                   &walk)
    if status != Status.OK:
        raise ValueError(f"record {walk.count} is wrong")
    return walk.count, walk.body_bytes, walk.last_offset


def unique_number_of(bytes data not None):
    """The unique number of the last record."""
    cdef Walk walk
    walk_records(<const uint8_t*>data, len(data), 0, False, &walk)
    return unique_number(&walk)


def since_number_ns(number, now_ns):
    """How many ns have passed since a unique number's moment."""
    return since_number(number, now_ns)
