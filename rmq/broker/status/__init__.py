"""Status: a shard's numbers, for requests, metrics and operators.

    sampler             makes the Sample that all other modules here show
    runtime_info        the runtime table: requests 28 and 315
    consume_stats       requests 202, 208, 303 and 317
    consumer_lag        how far groups are behind
    counter_history     rates and day totals, calculated from counters
    put_times           how long sends took, in RocketMQ's words
    http_server         /metrics, /healthz and /readyz
    status_port         the port of that server
    store_reopening     what that port answers while a log is opened anew

Everything that shows numbers reads samples.
"""
