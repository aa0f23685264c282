# Unsent: how many bytes may wait for a client that does not read, before no more is added.
#
# Each kind of answer has a limit of its own. Answers to pulls are large, and their clients ask
# again; a reply that another client waits for must not be lost because its producer is slow for a
# moment; a check back is asked again in a later round. What waits is Connection.unsent_bytes.

cdef enum:
    PULL_UNSENT_MAX = 1048576       # with more, the client's pulls wait until it has read
    PUSH_UNSENT_MAX = 16777216      # with more, replies to this producer are refused
    CHECK_UNSENT_MAX = 262144       # with more, this producer is asked about no half message
