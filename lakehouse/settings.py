"""Settings: read once, frozen, passed to whatever needs them.

They come from, each over the one before: `conf/lakehouse.toml` of the package, a file of the user's (`--conf`,
`LAKEHOUSE_CONF`), environment variables `LAKEHOUSE_<KEY>`, the command line.
"""

from __future__ import annotations

import os
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import (
    SettingsError as SettingsSourceError,
)

from lakehouse.errors import SettingsError

if TYPE_CHECKING:
    from importlib.abc import Traversable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Settings(BaseModel):
    """Everything that a user can set; `conf/lakehouse.toml` shows each key's meaning, unit and default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    warehouse: str = Field(min_length=1)
    registry: str
    delta_jars: str
    ivy_settings: str
    max_document_bytes: int = Field(gt=0)
    max_unpacked_bytes: int = Field(gt=0)
    stream_bytes: int = Field(gt=0)
    max_json_depth: int = Field(gt=0, le=200)
    max_entities: int = Field(gt=0)
    check_relations: bool
    refresh_effective: bool
    planner: Literal["auto", "spark"]
    planner_rows: int = Field(ge=0)
    planner_bytes: int = Field(ge=0)
    interpreted_rows: int = Field(ge=0)
    interpreted_bytes: int = Field(ge=0)
    max_chain_depth: int = Field(gt=0, le=128)
    owner_labels: str
    on_conflict: Literal["update", "refuse"]
    duplicate_messageids: Literal["warning", "error"]
    stage_retention_hours: int = Field(gt=0)
    match_retention_days: int = Field(ge=0)
    commit_attempts: int = Field(gt=0)
    single_writer: bool
    sync: bool
    http_body_seconds: float = Field(gt=0)
    http_bodies_bytes: int = Field(gt=0)
    events_source: str = Field(min_length=1)
    authority: str
    expectations_dir: str
    readmodel_dir: str
    spark: dict[str, str]

    @property
    def owner_names(self) -> list[str]:
        """Return the names of the labels that name an owner, the first one that an entity has counts."""
        return [name.strip() for name in self.owner_labels.split(",") if name.strip()]


def read_settings(conf: str | None = None, **options: Any) -> Settings:
    """Read the settings.

    Args:
        conf: TOML file of the user's; None reads the one that `LAKEHOUSE_CONF` names, if any.
        options: settings of the command line; None means not given.

    Raises:
        SettingsError: a file cannot be read, a key is unknown, a value is of the wrong type or out of range.
    """
    in_files = tomllib.loads(data_folder("conf").joinpath("lakehouse.toml").read_text(encoding="utf-8"))
    user_file = conf or os.environ.get("LAKEHOUSE_CONF")
    if user_file:
        in_files |= _read_toml(user_file)

    class SettingSources(Settings, BaseSettings):
        model_config = SettingsConfigDict(env_prefix="LAKEHOUSE_", frozen=True, extra="forbid")

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, in_files)

    try:
        overrides = {key: value for key, value in options.items() if value is not None}
        return Settings(**SettingSources(**overrides).model_dump())
    except (ValidationError, SettingsSourceError) as error:
        raise SettingsError(_reason(error)) from error


def data_folder(name: str) -> Traversable:
    """Return a folder that is part of the package: 'ddl', 'conf' or 'expectations'.

    In a wheel it is inside the package, in a checkout next to it.
    """
    package = files("lakehouse")
    packaged = package / "_data" / name
    return packaged if packaged.is_dir() else Path(str(package)).parent / name


def _read_toml(path: str) -> dict[str, Any]:
    try:
        result: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        return result
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}). Name an existing file with --conf.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error


def _reason(error: ValidationError | SettingsSourceError) -> str:
    if isinstance(error, SettingsSourceError):
        return f"{error}. See conf/lakehouse.toml."
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    return f"{key}: {problem['msg']} (given: {problem['input']!r}). See conf/lakehouse.toml for the keys."
