"""PullConsumer: pulls ahead and hands out when asked."""
