"""Demo: a cluster of replicas on this machine, with traffic, that tells what happens to it.

    cluster     its processes, with their commands and ports; starts and restarts them
    ports       free ports on loopback
    interrupts  Ctrl-C, whenever it comes
    traffic     a producer and a consumer that count acknowledged and received messages
    story       what is told about deaths, elections and returns
    screen      a table that stays in place and changes, or plain lines
    run         all of it together

Nothing here is used by a broker.
"""
