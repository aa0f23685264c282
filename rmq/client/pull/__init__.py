"""PullConsumerImpl: pulls ahead and hands out when asked.

consumer            the class
assignment          the queues it reads now, and how far its group is in them
pull_queue          one of them: what was pulled ahead, how far the user is
puller              pulls ahead from all of them, and hands out what came
commits             brokers, or the store given instead, are told how far the group is
"""
