"""xRegistry Lakehouse: a Spark-native Delta Lake catalog store for CNCF xRegistry documents."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("xregistry-lakehouse")
except PackageNotFoundError:  # run from an unpacked archive (spark-submit --py-files)
    __version__ = "unknown"
