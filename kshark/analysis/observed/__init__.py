"""What a capture holds beside its findings: what could be judged, how often rules were put to the test, counts."""
