"""Staying current: Kafka's message definitions against the dissectors, and first drafts of what is new."""
