"""Real Java clients in trouble: `python -m tests.trouble` breaks their network, stops their processes, restarts their
brokers, changes their group and deletes their topics, and looks at what kshark says of them. They keep the rules, so
nobody may say that a client broke one.

`proxy` is the network, or `tunnel`, which loses single packets in one direction. `cluster` is two brokers after it,
with captures on both sides, `security` who clients say they are, where they have to. `clients` are Kafka's own tools, a
consumer of our own on Kafka's client (Consumer.java) and others of librdkafka, most of them in share groups, `troubles`
is what happens to them, `administrators` what is done with their topics, groups and rights.

`events` are captures of one known trouble each, with a log of when it was."""
