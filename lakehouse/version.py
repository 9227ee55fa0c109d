"""The version of the product, for modules that write it: none of them needs the package itself for it."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("xregistry-lakehouse")
except PackageNotFoundError:  # run from an unpacked archive (spark-submit --py-files)
    VERSION = "unknown"
