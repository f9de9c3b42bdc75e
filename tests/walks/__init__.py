"""How right kshark is on random walks: raw share clients that make every mistake at random against real brokers.

`NAME.pcap` is the walk; `NAME.expected.json` says of every request, by the walker's own model of the broker, what was
sent, whether anything was wrong with it, and what the one finding of a refusal may say. `python -m tests.walks
[PCAP...]` prints the marks,
`python -m tests.walks.thinned` what missing packets add.
"""
