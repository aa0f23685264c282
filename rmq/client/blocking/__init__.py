"""The blocking client of the command line, tests and tools: no threads, no compiled modules.

    transport           how a request gets to an address: the Protocol, and blocking sockets
    connection          one socket: sends requests, reads answers
    cluster             brokers and routes as the name servers know them, over a transport
    partial             answers of many brokers, where some do not answer
    answers             converts bodies to values of the expected types
    topics              a topic at each broker; changes only the values that are named
    group_lag           what a group has not consumed yet; retries and dead letters apart
    waiting_retries     retries whose delay is not over, of all groups
    admin, lookup       an operator's questions about topics, groups, brokers; messages by key or id
    credentials         the account that signs the requests
    encryption          whether connections use TLS
    accounts            changes of users and of what they may do
    replicas            which broker copies which; elections that an operator asks for
    tail, trace         messages as they come; what became of one message
    reads               some messages of one queue

It is slower than the rest of rmq.client, and fast enough for people's questions.
"""
