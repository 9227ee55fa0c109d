"""Whether a new schema breaks those who read or write with the old one, and why: plain Python, without Spark, files or network.

| module | decides |
|---|---|
| `comparison` | which format two schemas have, and their judgement, kept by the hashes of both |
| `schemadifferences` | whom a difference breaks, in which words |
| `limits` | when comparing takes too much work: then the answer is `unknown` |
| `formatchecks` | whether a schema keeps the rules of its format |
| `avroschemas` | Avro: its rules, and schema resolution |
| `jsonshapes`, `jsonschemas` | JSON Schemas as constraints, and whether they take the same values |
| `protoschemas` | Protobuf by field number, as bytes and as JSON |
| `xmlschemas` | elements and attributes of XML Schema: occurrence and types |
| `jsonstructures` | JSON Structure: properties and types |

What cannot be decided is `unknown` and never guessed.
"""

from lakehouse.compatibility.comparison import compare, judge
from lakehouse.compatibility.formatchecks import FormatCheck, check_format
from lakehouse.compatibility.schemadifferences import Answer, Breaks, Judgement, SchemaDifference

__all__ = ["Answer", "Breaks", "FormatCheck", "Judgement", "SchemaDifference", "check_format", "compare", "judge"]
