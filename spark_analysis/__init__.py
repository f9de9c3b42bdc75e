"""The same tables and findings on Spark, for captures of any number and size: the only package that imports pyspark."""
