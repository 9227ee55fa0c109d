"""Benchmarks: how long the product takes, beside what Spark takes to do the least that could be done."""
