"""Messages, connections, oddities and findings as flat rows, and the way back from rows to events.

rows = Rows("a.pcap")
for table, found in rows.page(events): ...  # tuples in the order of TABLES[table].columns
"""

from kshark.tables.columns import COMMON, TABLES, Column, Table
from kshark.tables.fields import Row
from kshark.tables.rows import Rows

__all__ = ["COMMON", "TABLES", "Column", "Row", "Rows", "Table"]
