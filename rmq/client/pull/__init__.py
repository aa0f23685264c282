"""Pull consumer: pulls messages ahead, and returns them when poll is called.

consumer            PullConsumerImpl, the class
assignment          the queues it reads now, and how far its group is in them
pull_queue          one of these queues: the messages pulled ahead, and how far the user is
puller              pulls ahead from all of them, and returns messages to poll
commits             tells brokers, or the store given instead, how far the group is
"""
