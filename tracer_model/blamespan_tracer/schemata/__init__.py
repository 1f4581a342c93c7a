"""Error schemata: confirmed failures, kept as signatures by which they are known again, without any training.

Source: CORRECT (a cache of known error schemata). We differ: a schema is made of what the ledger, the checks and the
words of a step show, nothing is asked of a language model, and it is held against sound runs before it is kept.
"""

from blamespan_tracer.schemata.file import SchemataFile, schemata_file, schemata_in_use
from blamespan_tracer.schemata.making import SoundSteps, make_schema
from blamespan_tracer.schemata.matching import SchemaMatch, match_schemata
from blamespan_tracer.schemata.schema import ErrorSchema, SeenFailure, Signature

__all__ = [
    "ErrorSchema",
    "SchemaMatch",
    "SchemataFile",
    "SeenFailure",
    "Signature",
    "SoundSteps",
    "make_schema",
    "match_schemata",
    "schemata_file",
    "schemata_in_use",
]
