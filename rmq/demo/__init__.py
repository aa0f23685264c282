"""Demo: a cluster of replicas on this machine, with traffic, that tells what happens to it.

    cluster     which processes there are, their commands and ports; started and started again
    ports       free ones on loopback
    interrupts  Ctrl-C, whenever it comes
    traffic     a producer and a consumer that count what was acknowledged and what came
    story       what is told of deaths, elections and returns
    screen      a table that stands and changes, or plain lines
    run         all of it together

Nothing here is used by a broker.
"""
