"""Run a query with PySpark and Delta Lake alone, in its own process, and print its first value: the floor of a command."""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
sys.stdout.write(f"{spark.sql(sys.argv[1]).collect()[0][0]}\n")
spark.stop()
