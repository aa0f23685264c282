"""Wire: the bytes of the protocol; it knows neither sockets nor files.

The vocabulary, in headers of constants: codes, system_topics, limits.

    frame               where a command begins and ends
    header, header_shapes, field_slots, name_table      a command's header (JSON or binary) and its
                                                        fields
    text, java_number, base64url                        strings and numbers in a header
    replies             response frames, written in place
    reply_reader        response frames, as clients read them from a stream

Each of these reads one kind of request: send_request, batch, pull_request, pop_request,
offset_commit, send_back, end_transaction, recall_request.

    properties, property_pairs, property_edit   the property string of a message; the tag code
    message_id          the two kinds of id
    subscription        the tags of a pull, as codes
    sql_program         an SQL92 filter, run over one message
    revive_entry        check points and acks of pops, as the revive log holds them
    ha_stream           what a master and its slaves say on the HA port
    signature           checks that a request is signed with its user's password
    topic_name          which names a topic may have
"""
