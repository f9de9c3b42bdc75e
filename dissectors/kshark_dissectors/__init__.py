"""Kafka's facts as data: one file an API, no control flow. README.md says how to add one; index.py says which there
are."""
