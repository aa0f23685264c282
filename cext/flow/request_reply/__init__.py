"""Request and reply: a consumer's reply is pushed to the producer whose request it answers.

    reply_service       the service
    reply_push          a reply (324, 325) goes out as a push (326), and its answer comes back
    reply_table         pushes that are not answered yet, and the connection of each client id

Replies to a producer of another shard are control's work: rmq/broker/requests.
"""
