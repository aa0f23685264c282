"""Pop: consumers that own no queue, their acknowledgements, and what comes again.

    pop_service         the service
    pop                 from the request (200050) to a job
    pop_job             the job: a pull's job, and the fields that a pop adds
    pop_answer          from the job to its reply and its check points
    pop_queues          the queues that one pop looks into
    pop_offset          where a group goes on in each of them
    pop_batch           the messages of one pop: noted, gathered, and rewritten if of a retry topic
    popped_messages     what one pop has found so far
    pop_reply           the replies
    held_pops           long polling: jobs that wait at the pair of their topic and group
    pop_table           all that is kept about consumers that pop
    pop_pair            a topic and a group: jobs that wait, and what is popped in order
    pop_ack             acks (200051, 200151) and changes of the invisible time (200053)
    pop_merge           acks of one check point in a turn (merged_ack) are one record
    pop_order           pops in order: the batch a consumer holds
    pop_inflight        how many messages of a group are popped and not acknowledged
    pop_journal         where groups go on, read from the check points at a start

What comes again

    revive              messages that were not acknowledged in time go to the retry topic
    revive_log          the topic of check points and acks
    revive_ring         check points that wait for their time

Which messages are popped and not acknowledged is in the log alone, in check points and acks.
"""
