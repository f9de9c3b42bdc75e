"""Writes all golden files anew: look at the differences before they are committed."""

from tests.analysis.rules import catalogue
from tests.analysis.rules.promises import write_sentences
from tests.golden.writer import CAPTURES_TOLD, write

for capture in CAPTURES_TOLD:
    write(capture)
    print(capture.name)
write_sentences()
catalogue.write()
