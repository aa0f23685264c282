"""The blocking client of the command line, tests and tools: no threads, no compiled modules.

    transport           how a question gets to an address: the Protocol, and blocking sockets
    connection          one socket: requests out, answers back
    cluster             the view from the name servers, over a transport
    answers             bodies as values of the types that are expected
    topics              a topic at each broker; changes of what is named alone
    group_lag           what a group has still to consume, retries and dead letters on their own
    admin, lookup       what an operator asks of topics, groups, brokers; messages by key or id
    credentials         whose requests these are
    encryption          whether they go by TLS
    accounts            users and what they may do, as an operator changes them
    replicas            who copies whom; elections, as an operator asks for them
    tail, trace         messages as they come; what became of one
    reads               some messages of one queue

It is slower than rmq.client, and enough for people's questions.
"""
