"""Subscription: the tag expression of a pull, as tag codes with which queue entries are compared.

Example: "TagA || TagB" -> the hash codes of TagA and TagB; "*", "" and absence -> everything.
"""
from libc.stdint cimport int32_t

from cext.wire.text cimport Text

cdef enum:
    SUBSCRIPTION_BYTES_MAX = 4096    # of an expression with JSON escapes; longer ones go to control


# Writes one int32 tag code (the low bits of tags_code in properties.pxd) for each tag, in order and
# with duplicates, and returns how many. 0 with all_tags: everything matches. 0 without all_tags:
# nothing matches. MALFORMED: only separators ("||"), or a broken escape. TOO_LARGE: more tags than
# `capacity`.
cdef int parse_tag_subscription(const Text* text, int32_t* codes, int capacity,
                                bint* all_tags) noexcept nogil
