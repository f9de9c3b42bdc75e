"""Share clients against real brokers: random walks with a model that foretells each answer, and scenarios that are
written once.

`server` starts a broker, `live` speaks with it in the words of tests.conversation, `walk` and `actions` do right and
wrong, `state` and
`model` say beforehand what will be answered, on the product's own `table`; `diary` and `expected` write down what a
capture of it should lead to, and `records` asks the product's in-flight machine at every answer whether it had held
possible what is handed out."""
