"""Errors in the form of the Confluent Schema Registry's API: `error_code` and `message`."""

from __future__ import annotations

import orjson

from lakehouse.serve.apierrors import ProblemFound

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryError(ProblemFound):
    """A request that is answered with an error of that API.

    Attributes:
        code: such as 40401; the status is its first three digits.
        allowed: the methods of the path, for a request with another one, whose status is 405.
    """

    def __init__(self, code: int, message: str, allowed: str | None = None) -> None:
        status, headers = (int(str(code)[:3]), None) if allowed is None else (405, {"Allow": allowed})
        super().__init__("", detail=message, status=status, headers=headers)
        self.code = code


def subject_not_found(subject: str) -> RegistryError:
    """Return the error of a subject that there is not."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: str) -> RegistryError:
    """Return the error of a version that a subject has not."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(message: str) -> RegistryError:
    """Return the error of an id, GUID or schema that there is not."""
    return RegistryError(40403, message)


def invalid_schema(message: str) -> RegistryError:
    """Return the error of a schema that is none."""
    return RegistryError(42201, f"Invalid schema: {message}")


def read_only(subject: str, allowed: str | None = None) -> RegistryError:
    """Return the error of a request that writes, with the methods of its path where it has another one."""
    what = f"Subject '{subject}'" if subject else "The registry"
    text = f"{what} is in read-only mode: this is a catalog. Register the schema where the catalog is loaded from, and ingest it."
    return RegistryError(42205, text, allowed)


def error_body(problem: ProblemFound) -> bytes:
    """Write a problem; one that every path may have has its status as the code."""
    code = problem.code if isinstance(problem, RegistryError) else problem.status
    message = " ".join(text for text in (problem.title if problem.name else "", problem.detail or "") if text)
    return orjson.dumps({"error_code": code, "message": message or problem.title})
