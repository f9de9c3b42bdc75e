"""Compare Kafka's message definitions with the dissectors, and write first drafts of new dissectors."""
