"""The client's half of the wire: an engine thread without the GIL, and what Python sees of it.

    state       the structs (slot, mailbox, link, batch, engine), and which thread may touch what
    mutex       mutex and condition variable (declarations)
    slots       requests under way: taken, found by their opaque, given back
    link        one connection: buffers, connect, send, receive
    claim       a slot, or room in a buffer, for a caller who may have to wait for it
    loop        what the thread does: sends, receives, finds what is late
    engine      Engine: the thread, its links and its requests, as Python sees them
    mailbox     answers on their way to a Python thread or an event loop; Mailbox
    reply       Reply: an answer, or a request of the broker, its fields read on first use
    request     any request as one frame
    message     Message and MessageExt; pulled bytes into messages
    result      SendResult: where a message went
    sends       a producer's sends under way: their gate, their ends, who is told
    target      one queue that is sent to: frames, open batches; the queues of a topic
    sender      Sender: the half of a producer without a step in Python

The rest of the client, in Python, is rmq/client.
"""
