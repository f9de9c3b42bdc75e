"""Keeping up with Kafka: its message definitions compared with the dissectors, and first drafts of what is new."""
