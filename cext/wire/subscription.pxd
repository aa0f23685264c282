"""Subscription: the tag expression of a pull, as the codes its queue entries are compared with.

Example: "TagA || TagB" -> the hash codes of TagA and TagB; "*", "" and absence -> everything.
"""
from libc.stdint cimport int32_t

from cext.wire.text cimport Text

cdef enum:
    SUBSCRIPTION_BYTES_MAX = 4096    # of an expression with JSON escapes; longer ones go to control


# Writes one int32 tag code (as tags_code of properties.pxd) per tag, in order, duplicates kept, and
# returns how many. all_tags: everything is wanted, and the count is 0. Not all and 0: nothing
# matches. MALFORMED: only separators ("||"), or a broken escape. TOO_LARGE: more tags than
# capacity.
cdef int parse_tag_subscription(const Text* text, int32_t* codes, int capacity,
                                bint* all_tags) noexcept nogil
