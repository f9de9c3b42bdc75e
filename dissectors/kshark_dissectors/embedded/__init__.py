"""Kafka's structures inside bytes: group protocols, records of internal topics, control records; places.py says where
they occur."""
