"""The fuzz lane: damaged input of every kind, by chance and the same for the same seed, held against what must be so of
any input.

    make fuzz MINUTES=10                                    # or
    python -m tests.fuzz --minutes 10 --seed 1 [--only KIND] [-o FOLDER]
    python -m tests.fuzz --replay FOLDER/frames-1-57.json   # a failure that was found, again

Each kind of input is a file with one class (tests.fuzz.kind says what it has to have): it makes a case from a seed,
says what must be so of it, and which smaller cases there are. The lane (tests.fuzz.lane) runs cases, each within its
CPU time, and makes those that fail smaller until nothing can be left out. A case is known by the seed and its number:
`--only frames --seed 1 --number 57` runs that one.

To add a kind: a file beside these, and a row of KINDS in tests/fuzz/kinds.py, with a fault in tests/fuzz/test_lane.py
that it must see."""
