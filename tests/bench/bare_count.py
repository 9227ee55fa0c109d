"""Count the rows of a Delta table with PySpark alone, as a process of its own: the floor of `lakehouse sql`."""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
sys.stdout.write(f"{spark.read.format('delta').load(sys.argv[1]).count()}\n")
spark.stop()
