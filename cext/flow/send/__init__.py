"""Send: what clients send, from the request to the appended record.

    send_service            the service
    message_send            sends and batches (10, 310, 320)
    pending_topic_sends     connections that are not read while control makes their topic
    recall                  a timed message is taken back (370)
    send_back               messages that a consumer could not consume (36)
    dead_letter             messages that came too often go to %DLQ%group

Delayed messages and half messages are stored under another topic first: transaction/redirect.
"""
