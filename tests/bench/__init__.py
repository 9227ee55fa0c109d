"""Benchmarks: how long the product takes, compared with the least that Spark has to do for the same result."""
