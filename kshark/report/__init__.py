"""A report for people who must act: counts of events and findings (`Collector`, `Collected`), as plain data and as an
HTML page.
"""
