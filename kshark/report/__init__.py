"""A report for people who have to act: what events and findings come to (`Collector`, `Collected`), as plain data, as a
page of HTML."""
