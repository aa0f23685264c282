"""Frames rendered from templates (see template.pxd for what varies).

Built in Python by `rmq.load.frames`. Every offset is checked here once, so that `render` needs no
checks. A frame costs a copy of the header, a copy of the body, 8 digits and 12 hex digits; and a
signature, if it is signed anew.

    >>> from rmq.load.frames import send_frames
    >>> send_frames(...).render_one(0, 10_000_000, 7)[:4]
    b'\\x00\\x00\\x02\\x9a'
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from cext.base.byteorder cimport load_u32, store_u32
from cext.load.signer cimport SIGNATURE_BYTES, SIGNED_BYTES_MAX, Signer

from rmq.errors import not_copied

OPAQUE_FIRST = 10_000_000
OPAQUE_LAST = 99_999_999

cdef extern from *:
    """
    static const char rmq_hex_digits[] = "0123456789ABCDEF";
    """
    const char* rmq_hex_digits


cdef inline void put_digits(uint8_t* out, uint32_t value, uint32_t digits) noexcept nogil:
    cdef uint32_t i, rest = value
    for i in range(digits):
        out[digits - 1 - i] = 48 + rest % 10
        rest //= 10


cdef inline void put_hex(uint8_t* out, uint64_t value) noexcept nogil:
    cdef uint32_t i
    cdef uint64_t rest = value
    for i in range(UNIQUE_DIGITS):
        out[UNIQUE_DIGITS - 1 - i] = <uint8_t>rmq_hex_digits[rest & 15]
        rest >>= 4


cdef inline uint32_t put_number(uint8_t* out, int64_t value) noexcept nogil:
    """Decimal without leading zeros; value >= 0. Returns the number of digits."""
    cdef uint8_t reversed_digits[NUMBER_DIGITS_MAX]
    cdef uint32_t count = 0, i
    cdef int64_t rest = value
    while True:
        reversed_digits[count] = <uint8_t>(48 + rest % 10)
        count += 1
        rest //= 10
        if rest == 0:
            break
    for i in range(count):
        out[i] = reversed_digits[count - 1 - i]
    return count


@cython.no_gc_clear                  # its templates point into its other fields
cdef class FrameSet:
    def __cinit__(self, list frames not None, bytes body not None, list body_unique_at not None,
                  bint binary=False, uint32_t messages=1, Signer signer=None,
                  list signed=None):
        """frames: (header with the 8 length bytes, split, opaque_at, unique_at, cells) for each.
        signed, with a signer: for each (what is signed without number and body, where the number
        goes in that, where the signature goes in the header)."""
        cdef uint32_t at = 0, i
        cdef Template* template
        if not frames or messages == 0:
            raise ValueError("a frame set needs a frame and at least one message in it")
        self.block = b"".join(frame[0] for frame in frames)
        self.body_bytes = body
        self.body = <const uint8_t*>self.body_bytes
        self.body_length = len(body)
        self.binary = binary
        self.messages = messages
        self.count = len(frames)
        if signer is not None and (signed is None or len(signed) != len(frames)):
            raise ValueError(f"{len(frames)} frames are to be signed: say what of each")
        self.signer = signer
        self.signed = None if signer is None else [content for content, _, _ in signed]
        self.templates = <Template*>calloc(self.count, sizeof(Template))
        self.body_unique_at = <uint32_t*>calloc(len(body_unique_at) + 1, sizeof(uint32_t))
        if self.templates == NULL or self.body_unique_at == NULL:
            raise MemoryError()
        self.body_unique_count = len(body_unique_at)
        for i, offset in enumerate(body_unique_at):
            if not 0 <= offset <= len(body) - UNIQUE_DIGITS:
                raise ValueError(f"unique id at {offset} leaves the body of {len(body)} bytes")
            self.body_unique_at[i] = offset
        for i, (header, split, opaque_at, unique_at, cells) in enumerate(frames):
            template = &self.templates[i]
            check_frame(header, split, opaque_at, unique_at, cells, 4 if binary else OPAQUE_DIGITS)
            template.bytes = <const uint8_t*>self.block + at
            template.length = len(header)
            template.split = split
            template.opaque_at = opaque_at
            template.unique_at = unique_at
            template.cell_count = len(cells)
            for k, cell in enumerate(cells):
                template.cells[k] = cell
            if signer is not None:
                content, signed_split, signature_at = signed[i]
                set_signed(template, content, signed_split, signature_at, len(body))
            at += template.length
            self.max_bytes = max(self.max_bytes,
                                 template.length + self.body_length + NUMBER_DIGITS_MAX)

    def __reduce__(self):
        raise not_copied(self, "make one in each process, from its frames")

    def __dealloc__(self):
        free(self.templates)
        free(self.body_unique_at)

    cdef uint32_t render(self, uint32_t index, int32_t opaque, uint64_t unique, int64_t number,
                         uint8_t* out) noexcept nogil:
        cdef const Template* template = &self.templates[index]
        cdef uint32_t digits = 0, i, opaque_at = template.opaque_at, unique_at = template.unique_at
        cdef uint32_t signature_at = template.signature_at
        cdef uint8_t* body
        if template.split == 0:
            memcpy(out, template.bytes, template.length)
        else:
            memcpy(out, template.bytes, template.split)
            digits = put_number(out + template.split, number)
            memcpy(out + template.split + digits, template.bytes + template.split,
                   template.length - template.split)
            for i in range(template.cell_count):
                store_u32(out + template.cells[i], load_u32(out + template.cells[i]) + digits)
            if opaque_at >= template.split:
                opaque_at += digits
            if unique_at >= template.split:
                unique_at += digits
            if signature_at >= template.split:
                signature_at += digits
        if self.binary:
            store_u32(out + opaque_at, <uint32_t>opaque)
        else:
            put_digits(out + opaque_at, <uint32_t>opaque, OPAQUE_DIGITS)
        if template.unique_at:
            put_hex(out + unique_at, unique)
        body = out + template.length + digits
        memcpy(body, self.body, self.body_length)
        for i in range(self.body_unique_count):
            put_hex(body + self.body_unique_at[i], unique + i)
        if template.signed_bytes != NULL:
            self.sign(template, out + template.split, digits, body, out + signature_at)
        return template.length + digits + self.body_length

    cdef void sign(self, const Template* template, const uint8_t* number, uint32_t digits,
                   const uint8_t* body, uint8_t* signature) noexcept nogil:
        self.signer.begin()
        self.signer.add(template.signed_bytes, template.signed_split)
        self.signer.add(number, digits)
        self.signer.add(template.signed_bytes + template.signed_split,
                        template.signed_length - template.signed_split)
        self.signer.add(body, self.body_length)
        self.signer.end(signature)

    def render_one(self, uint32_t index, opaque, unique, number=0):
        """One finished frame as bytes, as the loops send it."""
        cdef bytes out
        cdef uint32_t length
        if index >= self.count or number < 0 or not OPAQUE_FIRST <= opaque <= OPAQUE_LAST:
            raise ValueError(f"frame {index} of {self.count}, opaque {opaque}, number {number}")
        out = bytes(self.max_bytes)
        length = self.render(index, opaque, unique, number, <uint8_t*><char*>out)
        return out[:length]


cdef check_frame(bytes header, split, opaque_at, unique_at, cells, opaque_bytes):
    length = len(header)
    if not 8 < length < 1 << 24:
        raise ValueError(f"a header of {length} bytes")
    if not 8 <= opaque_at <= length - opaque_bytes:
        raise ValueError(f"opaque at {opaque_at} leaves the header of {length} bytes")
    if unique_at and not 8 <= unique_at <= length - UNIQUE_DIGITS:
        raise ValueError(f"unique id at {unique_at} leaves the header of {length} bytes")
    if split and not 8 <= split <= length:
        raise ValueError(f"number at {split} leaves the header of {length} bytes")
    if len(cells) > CELLS_MAX or any(not 0 <= cell <= split - 4 for cell in cells):
        raise ValueError(f"length fields {cells} must stand before the number at {split}")


cdef set_signed(Template* template, bytes content, split, signature_at, body_bytes):
    cdef int64_t room = <int64_t>template.length - SIGNATURE_BYTES
    if not template.split or template.unique_at:
        raise ValueError("what is signed anew is a frame with a number and without a unique id")
    if not 8 <= signature_at <= room:
        raise ValueError(f"signature at {signature_at} leaves {template.length} bytes of header")
    if signature_at < template.split < signature_at + SIGNATURE_BYTES:
        raise ValueError(f"number at {template.split} within the signature at {signature_at}")
    if len(content) + NUMBER_DIGITS_MAX + body_bytes > SIGNED_BYTES_MAX:
        raise ValueError(f"{len(content)} bytes and a body of {body_bytes} are too many to sign")
    if not 0 <= split <= len(content):
        raise ValueError(f"number at {split} leaves what is signed, {len(content)} bytes")
    template.signed_bytes = <const uint8_t*><const char*>content
    template.signed_length = <uint32_t>len(content)
    template.signed_split = <uint32_t>split
    template.signature_at = <uint32_t>signature_at
