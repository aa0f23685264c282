"""What all kinds of consumers share: subscriptions, groups, listeners, offset stores."""
