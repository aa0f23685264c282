"""Recovery: which queue entries count at a start, and what is dispatched again.

How far the log itself is believed is decided by log_scan. The commit log is the truth. Queue files
are believed up to one log offset, the start; entries at and above it are cut and made anew from the
log. Exactly one row gives the start (first match counts):

    row what is on disk                             start of dispatch       who leaves it so
    S1  no commit-log segment                       0, queue files removed  new store; log deleted
    S2  segments, no queue file at all              start of the log        queue directory deleted
    S4  queueEnds of the same boot                  its log offset          clean stop; kill -9
    S5  queueEnds.synced of any boot                its log offset          power cut; reboot
        without either (an older rmq, RocketMQ, files garbled):
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
    S10 a record from the start on that its queue   start of the log, all   queue files older than
        does not end just before, or one across it  queue files removed     the checkpoint says
        an entry garbled where Q1 or Q12 is to cut                          Q12, and a flipped bit

"Own part" is the one of rmq, believed when checksum and copy fit (checkpoint.pxd). queueEnds is
believed when its checksum is right and a record ends where it says (queue_ends.pxd); a broker that
wrote the store since has only added to the log, and what it took away is seen queue by queue.

Where a queue starts and ends is never read from its files alone. For entries below the start it is
what queueEnds says, which needs no search; without it the log is read once from its start (rows
with A), and then the files of a queue are believed only if none of its records is in the log.

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
    Q6  records say a lower offset than the queue   cut there: topic was    delete and create within
        has                                         made anew               the last seconds
    Q7  directory that is no legal topic            left alone, named       somebody's file
    Q8  garbled entry where an end was found        as Q5                   flipped bit
    Q9  files that do not hold what A1 or A3 says   as Q5; the end is at    page of zeros, file cut,
        at their ends                               least what is said      deleted or restored
    Q10 the queue ends below what A1 says when      blanks up to there: no  log damaged; records
        all is dispatched                           offset is given twice   deleted with the log
    Q11 its topic was deleted at a log offset       records below are       topic made anew, the
        above its records                           passed over, its files  older one's records in
                                                    removed                 the log
    Q12 queueEnds knows records that the log        cut where the log ends, log on another disk; a
        has lost                                    then as Q10             failed write-back

Rows S and A are followed in recovery_start, rows Q in recovery_queues and, while the log is
dispatched, in recovery. Where the log ends: rows E1-E7 in log_scan.pxd.

Example: killed by -9 at log end 10,000,000, checkpoint says persisted 9,500,000 on this boot: S4,
queues cut at 9,500,000, 500,000 bytes dispatched again.
"""
