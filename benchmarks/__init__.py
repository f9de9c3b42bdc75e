"""Speed, as ratios against named peers on the same file in the same run. Never part of the tests."""
