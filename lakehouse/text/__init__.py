"""Bytes become JSON values and back: strict and canonical, with JSON Pointers, without secrets.

JSON and YAML are read to the same values; what is wrong with a text is a `Problem` at a pointer, and what a rule finds is a
`Finding`. Secrets are blanked in everything that is kept. Nothing here knows what an xRegistry document means, or Spark's
session: other packages build upon it, and it builds on none.
"""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "jsontext": ["NotJson", "canonical", "pointer_of", "read_json"],
        "problems": ["Finding", "Problem", "violation_id"],
        "redact": ["redact"],
        "timestamps": ["microseconds"],
        "xid": ["as_xid", "xid_of"],
        "yamltext": ["is_yaml", "read_text"],
    },
)
