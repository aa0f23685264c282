"""Request and reply: a consumer's reply is pushed to the producer whose request it answers.

    reply_service       the service
    reply_push          a reply (324, 325) goes out as a push (326), and its answer comes back
    reply_table         pushes that are not answered yet, and who is connected under which id

A producer of another shard is control's matter: rmq/broker/requests.
"""
