"""The clients as users have them: what may be called of each, and nothing that is for its parts.

    base                what all of them have in common
    producer            Producer, TransactionProducer
    push_consumer       PushConsumer
    pull_consumer       PullConsumer
    pop_consumer        PopConsumer

Each holds the one that does the work (`ProducerImpl`, `PushConsumerImpl`, ..), which rmq.aio, the
twin for event loops, holds as well. So help() and completion show what is promised.
"""
