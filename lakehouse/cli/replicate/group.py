"""The command `lakehouse replicate`, with what it holds."""

from lakehouse.cli.console import with_globals
from lakehouse.cli.helping import group
from lakehouse.cli.replicate.pull import pull
from lakehouse.cli.replicate.push import push
from lakehouse.errors import SettingsError


@group("lakehouse replicate pull https://catalog.example/ --into shop")
@with_globals
def replicate() -> None:
    """Copy from and to other catalogs.

    Other catalogs are xRegistry servers, and servers of the CNCF catalog draft. Needs the extra `replicate`.
    """
    try:
        import urllib3  # noqa: F401
    except ModuleNotFoundError as error:
        raise SettingsError(f"`lakehouse replicate` needs {error.name}: pip install 'xregistry-lakehouse[replicate]'.") from error


replicate.add_command(pull)
replicate.add_command(push)
