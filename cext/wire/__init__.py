"""Wire: the bytes of the protocol; it knows neither sockets nor files.

Vocabulary, headers of constants: codes, system_topics, limits.

    frame               where a command begins and ends
    header, header_shapes, field_slots, name_table      its header, JSON or binary, and the fields
    text, java_number, base64url                        strings and numbers of a header
    replies             response frames, written in place
    reply_reader        response frames, as clients read them from a stream

Requests, one reader each: send_request, batch, pull_request, pop_request, offset_commit, send_back,
end_transaction, recall_request.

    properties, property_pairs, property_edit   the property string of a message; the tags code
    message_id          the two kinds of id
    subscription        the tags of a pull, as codes
    sql_program         an SQL92 filter, run over one message
    revive_entry        check points and acks of pops, as the revive log holds them
    ha_stream           what a master and its slaves say on the HA port
    signature           who has signed a request
    topic_name          which names a topic may have
"""
