"""The switch that turns off all use of Spark's and Delta's internals: the variable LAKEHOUSE_SPARK_INTERNALS."""

from __future__ import annotations

import os

from lakehouse.errors import SettingsError

VARIABLE = "LAKEHOUSE_SPARK_INTERNALS"


def uses_internals() -> bool:
    """Return whether internals of Spark and Delta are used; False: their public API alone.

    Raises:
        SettingsError: the variable is neither `on` nor `off`.
    """
    value = os.environ.get(VARIABLE, "on")
    if value not in ("on", "off"):
        raise SettingsError(f"{VARIABLE}: {value!r} is neither on nor off.")
    return value == "on"


def require_internals(what: str) -> None:
    """Refuse what cannot be done by the public API.

    Raises:
        SettingsError: internals are turned off.
    """
    if not uses_internals():
        raise SettingsError(f"{what} needs internals of Spark, which {VARIABLE}=off turns off. Unset the variable for it.")
