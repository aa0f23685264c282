"""Observe: samples of shards, and what operators see of them.

    sample              a shard's numbers at one moment
    rates               the difference of two samples: rows of `rmq top`
    latency             counts in buckets: their ends, differences, percentiles for a broker
    percentiles         the same percentiles computed by numpy, for `rmq bench`
    metrics             the metrics of /metrics, except those of the next three
    lag_metrics         how far groups are behind
    topic_metrics       messages and bytes that topics took and delivered
    histogram_metrics   RocketMQ's histograms
    exporter_metrics    metrics by the names of rocketmq-exporter, with the next two
    runtime_metrics     a broker's runtime table by those names
    minute              rates of topics over the last minute
    exposition          the text format of Prometheus
    http                the small HTTP server

Whatever shows numbers reads samples, and never asks the parts of a shard for them.
"""
