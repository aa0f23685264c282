"""The clients that users call: each class has the methods for users, and no internal ones.

    base                what all of them have in common
    producer            Producer, TransactionProducer
    push_consumer       PushConsumer
    pull_consumer       PullConsumer
    pop_consumer        PopConsumer

Each holds an object that does the work (`ProducerImpl`, `PushConsumerImpl`, ..). The classes of
rmq.aio, which are the same clients for event loops, hold the same objects. Because of this split,
help() and completion show only what is promised to users.
"""
