"""What a user sees of an error of Java."""

from __future__ import annotations

from lakehouse.errors import reason_of

JAVA = """An error occurred while calling o539.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
Caused by: org.apache.spark.SparkException: Task failed while writing rows
\tat org.apache.spark.sql.execution.Writer.write(Writer.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)
"""


def test_of_a_java_stack_what_failed_and_its_first_cause_are_reported():
    reported = reason_of(RuntimeError(JAVA))
    assert reported.startswith("org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed; caused by ")
    assert reported.endswith("java.io.IOException: No space left on device")


def test_an_error_without_a_stack_is_reported_as_it_is():
    assert reason_of(ValueError("two\nlines")) == "two\nlines"
    assert reason_of(ValueError()) == ""
