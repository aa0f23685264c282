"""PopConsumer: takes messages one by one for a while and acknowledges each."""
