"""By which test the example of a rule is tried, in `data/examples.csv` of the rules."""

from __future__ import annotations

from lakehouse.rules.declared import examples

WITHOUT_EXAMPLE = {
    "JSON-004",
    "JSON-005",
    "JSON-006",
    "DOC-001",
    "DOC-002",
    "DOC-003",
    "DOC-004",
    "DOC-005",
    "CAT-038",
    "CAT-064",
    "MATCH-001",
    "MATCH-002",
    "MATCH-003",
}
BY_DOCUMENTS = {"JSON-001", "MSG-002"} | WITHOUT_EXAMPLE
RELATIONAL = {
    "MSG-049", "MSG-134", "MSG-140", "MSG-146", "MSG-150", "MSG-156", "MSG-157", "MSG-183",
    "END-074", "END-096", "END-125", "END-130", "END-173", "END-174", "CAT-007", "MATCH-004",
}  # fmt: skip
BY_ASYNCAPI = sorted(rule_id for rule_id in examples() if rule_id.startswith("AAPI-"))  # test_asyncapi_read.py
BY_ONE_ENTITY = sorted(set(examples()) - RELATIONAL - BY_DOCUMENTS - set(BY_ASYNCAPI) - {"MSG-115"})
