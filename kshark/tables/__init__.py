"""Convert messages, connections, weirds and findings to flat rows, and rows back to events.

rows = Rows("a.pcap")
for table, block in rows.page(events): ...  # rows as columns
for table, row in rows.feed(event): ...  # a tuple in the order of TABLES[table].columns
"""

from kshark.tables.blocks import Block
from kshark.tables.catalogue import OF_RECORDS, TABLES
from kshark.tables.columns import COMMON, Column, Table
from kshark.tables.rows import Rows

__all__ = ["COMMON", "OF_RECORDS", "TABLES", "Block", "Column", "Rows", "Table"]
