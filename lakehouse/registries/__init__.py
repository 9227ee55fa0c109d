"""Schema registries come in: subjects become schemas, as documents that an ingest takes like any other.

`restapi` reads a registry over its API, `schemastopic` the topic in which it keeps its content, and `subjectdocuments` maps both
to xRegistry: a document for each subject. `registrysource` is what the command line calls.
"""

import lazy_loader

# urllib3 is there with the extra `replicate` only, Spark is started when something is to be loaded.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "registrysource": ["RegistryOptions", "fetch_registry", "is_registry", "load_registry", "read_registry_source"],
        "subjectdocuments": ["RegistryContent", "SubjectMapping", "SubjectVersion"],
    },
)
