"""Status: a shard's numbers, for requests, metrics and operators.

    sampler             makes the Sample that all others show
    runtime_info        28, 315
    consume_stats       202, 208, 303, 317
    consumer_lag        how far groups are behind
    counter_history     rates and day totals out of counters
    put_times           how long sends took, in RocketMQ's words
    http_server         /metrics, /healthz and /readyz
    status_port         where they are asked for
    store_reopening     what is known, and answered there, while a log is opened anew

Everything that shows numbers reads samples.
"""
