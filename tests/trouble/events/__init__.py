"""Captures in which something known happens, and a log of it: `python -m tests.trouble.events --case broker-silent`.

`network` gives each client a host of its own, `scene` is the brokers, clients, captures and the log of a case, `raw` a
client that does what no library does, `cases` what happens. `truth` is the log, and its comparison with the events that
kshark finds: `python -m tests.trouble.events --compare DIR`."""
