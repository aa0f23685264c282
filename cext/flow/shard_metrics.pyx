"""Shard metrics. See shard_metrics.pxd."""
from cext.base.histogram_buckets cimport HISTOGRAM_BUCKETS_MAX, HistogramBuckets
from cext.base.latency cimport LATENCY_BUCKETS, Latency
from cext.flow.context.service cimport Service


cdef dict stats_of(list services):
    cdef Service service
    cdef dict out = {}
    for service in services:
        out |= service.stats()
    return out


cdef dict pools_of(list services):
    cdef Service service
    cdef dict out = {}
    for service in services:
        out |= service.pools()
    return out


cdef tuple latency_numbers(const Latency* latency):
    cdef int i
    return [latency.counts[i] for i in range(LATENCY_BUCKETS)], latency.sum_us


cdef dict latencies_of(Appender append):
    cdef dict out = {"append": latency_numbers(&append.append_latency),
                     "flush": latency_numbers(&append.flusher.state.latency)}
    if append.log.pooled:
        out["commit"] = latency_numbers(&append.committer.state.latency)
    return out


cdef dict histograms_of(TransactionService transaction):
    cdef int i
    cdef HistogramBuckets* finish = &transaction.halves.finish
    return {"finish": ([finish.counts[i] for i in range(HISTOGRAM_BUCKETS_MAX)], finish.sum)}
