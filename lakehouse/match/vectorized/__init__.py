"""Many events at once: `match_batch` matches a batch of landed rows by columns.

The invariant: its results are those of the row loop (`match_row`), row by row. Rows whose definitions ask the same are taken
together; each distinct value of an attribute is compared once, by the functions of the row loop, and the verdicts are spread over
the rows. Rows that match with nothing else to report are done here. All others (no match, deviations, a more specific definition
that is missed, other shapes) are left to the row loop: whatever columns cannot decide for certain, they leave.
`tests/match/test_columns_at_random.py` compares both on random events.

`columns` reads rows as columns, `answers` compares their texts, `batch` chooses and writes results.
"""
