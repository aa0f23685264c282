"""Recovery: which queue entries count at a start, and what is dispatched again.

The commit log is the truth, and log_scan decides how far the log itself is believed. Queue files
are believed up to one log offset, the start. Entries of records at and above the start are cut and
made anew from the log. Exactly one row gives the start (the first match counts):

    row what is on disk                             start of dispatch       what leads here
    S1  no commit-log segment                       0, queue files removed  new store; log deleted
    S2  segments, no queue file at all              start of the log        queue directory deleted
    S4  queueEnds of the same boot                  its log offset          clean stop; kill -9
    S5  queueEnds.synced of any boot                its log offset          power cut; reboot
        without either (an older rmq, RocketMQ, or garbled files):
    S3  own checkpoint part, some queues missing    start of the log; the   one queue's directory
                                                    others keep entries     deleted
    S4  own part, same boot                         its persisted_offset    clean stop; kill -9
    S5  own part, other boot                        its synced_offset       power cut; reboot
    S6  no own part, no abort file                  end of the highest      Apache RocketMQ stopped
                                                    record in any queue     cleanly
    S7  no own part, abort file                     newest segment whose    Apache RocketMQ killed;
                                                    first record is older   checkpoint of another
                                                    than the checkpoint     run copied in
                                                    minus 3 s
    S8  as S7, but no segment is old enough         start of the log        checkpoint lost, garbled
    S9  S4-S6, but no record ends or starts there   as S7 or S8             log shortened; garbled
                                                                            checkpoint or entry
    S10 from the start on, a record whose queue     start of the log, all   queue files older than
        ends below it; a record across the start    queue files removed     the checkpoint says
        an entry garbled where Q1 or Q12 must cut                           Q12, and a flipped bit

"Own part" is the part of rmq in the checkpoint, believed when its checksum and its copy fit
(checkpoint.pxd). queueEnds is believed when its checksum is right and a record ends where it says
(queue_ends.pxd). A broker that has written the store since has only added to the log; what it
removed is found queue by queue.

The start and the end of a queue are never taken from its files alone. For entries below the start
queueEnds says them, which needs no search. Without queueEnds the log is read once from its start
(row A3), and then a queue's files are believed by themselves only if the log has no record of it.

    A1  queueEnds                       its entries         everything this version leaves
    A2  no queueEnds, start of          nothing is below    S2, S8
        dispatch at the log's start
    A3  no queueEnds                    the log, read up    first start after an older version or
                                        to the start        RocketMQ's broker

    Q1  entries at or above the start               cut                     queue files ahead
    Q2  entries missing below the log's end         dispatched again        queue files behind
    Q3  empty last file                             removed                 crash while made
    Q4  short last file                             filled up with zeros    crash while made
    Q5  file missing in between, wrong length       all removed, log read   files copied badly
                                                    from its start for it
    Q6  a record has a lower queue offset than      cut there: the topic    delete and create within
        the queue's end                             was made anew           the last seconds
    Q7  directory that is no legal topic            left alone, reported    somebody's file
    Q8  garbled entry where an end was found        as Q5                   flipped bit
    Q9  files whose ends are not what A1 or A3      as Q5; the end is at    page of zeros, file cut,
        says                                        least what A1/A3 says   deleted or restored
    Q10 after all is dispatched the queue ends      blanks up to there: no  log damaged; records
        below what A1 says                          offset is given twice   deleted with the log
    Q11 its topic was deleted at a log offset       records below are       topic made anew, records
        above its records                           passed over, its files  of the older topic still
                                                    removed                 in the log
    Q12 queueEnds knows records that the log        cut where the log ends, log on another disk; a
        has lost                                    then as Q10             failed write-back

Rows S and A are carried out in recovery_start, rows Q in recovery_queues and, while the log is
dispatched, in recovery. Rows E1-E7 in log_scan.pxd say where the log ends.

Example: the broker was killed with -9 at log end 10,000,000, and the checkpoint says persisted
9,500,000 on this boot: row S4, queues cut at 9,500,000, 500,000 bytes dispatched again.
"""
