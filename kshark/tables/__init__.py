"""Messages, connections, oddities and findings as flat rows, and the way back from rows to events.

rows = Rows("a.pcap")
for table, row in rows.feed(event): ...     # tuples in the order of TABLES[table].columns
"""

from kshark.tables.columns import COMMON, TABLES, Column, Table
from kshark.tables.rows import Rows

__all__ = ["COMMON", "TABLES", "Column", "Rows", "Table"]
