"""What verdicts depend on beside the exchanges themselves: brokers, connections, holes, clocks, releases."""
