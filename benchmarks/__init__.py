"""Measure speed as ratios to named peers, on the same file in the same run. Not part of the tests."""
