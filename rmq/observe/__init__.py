"""Observe: samples of shards, and what operators see of them.

    sample              a shard's numbers at one moment
    rates               the difference of two samples: rows of `rmq top`
    latency             counts in buckets: their ends, differences, percentiles for a broker
    percentiles         of such counts, by numpy, for `rmq bench`
    metrics             /metrics, but for what the next three have
    lag_metrics         how far groups are behind
    topic_metrics       what topics took and gave
    histogram_metrics   RocketMQ's histograms
    exporter_metrics    the same by the names of rocketmq-exporter, with the next two
    runtime_metrics     a runtime table by its names
    minute              rates of topics over the last minute
    exposition          Prometheus' text
    http                the small HTTP server

Whoever shows numbers reads samples; nobody asks a shard's parts for them.
"""
