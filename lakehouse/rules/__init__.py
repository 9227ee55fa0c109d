"""Every rule of the specifications: declared, checked in one entity, between entities, and in what is published.

`data/rules.csv` declares each rule by its requirement's id; `data/constraints.csv` holds those that a table can say. `entity`
checks an entity by itself while its document is parsed, `relational` checks what entities say of each other, in Spark. A check
gives findings; a finding that is stored is a violation.
"""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "declared": ["RULES", "Rule", "explain"],
        "gate": ["check_stage"],
        "entity.engine": ["Subject", "check_entity"],
        "published": ["check_catalog"],
        "findings": ["count_findings"],
    },
)
