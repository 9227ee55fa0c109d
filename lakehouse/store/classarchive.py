"""Java's class data sharing: an archive of the classes that Spark loads, from which it starts in about half the time.

Java writes the archive as it ends, after a session that did what is usual. An archive is valid for one Java and one class path,
of which its name has the digest. Java checks that, too, and starts without an archive that does not fit; but one that is cut off
would end it at once, so the name also has the size.

Spark gives Java its jars by a pattern, which each file system expands in another order, and an archive needs the same order. So
where there is one, all jars are on the class path by name, in front of the pattern.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from lakehouse.errors import LakehouseError

_OLDER_KEPT = 3  # of other class paths or releases that use the same folder
_QUIET = "-Xlog:cds*=off"  # Java warns on standard output, which belongs to the command


def with_spark_jars(class_path: str) -> str:
    """Return a class path with the jars of the Spark that PySpark starts behind it, sorted."""
    jars = Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0], "jars")
    return os.pathsep.join([class_path, *sorted(map(str, jars.glob("*.jar")))])


def find_archive(java: str, class_path: str) -> Path | None:
    """Return the archive that fits a Java and a class path with Spark's jars; None: there is none."""
    archives = _folder(class_path).glob(f"classes-{_digest(java, class_path)}-*.jsa")
    return next((path for path in archives if path.stem.rpartition("-")[2] == str(path.stat().st_size)), None)


def options_to_use(archive: Path) -> str:
    """Return the options with which Java starts from an archive."""
    return f'"-XX:SharedArchiveFile={archive}" {_QUIET}'


@contextmanager
def new_archive(java: str, class_path: str) -> Iterator[tuple[str, Callable[[], Path]]]:
    """Provide the options with which Java writes an archive as it ends.

    Yields:
        The options, and the function that puts the archive in its place, to be called after Java has ended.

    Raises:
        LakehouseError: (by the function) Java wrote none.
        OSError: the folder cannot be written.
    """
    folder = _folder(class_path)
    with tempfile.TemporaryDirectory(dir=folder, prefix="classes-") as scratch:
        written = Path(scratch) / "classes.jsa"

        def put_in_place() -> Path:
            if not written.is_file():
                raise LakehouseError(
                    f"{java} wrote no archive: an administrator runs `java -Xshare:dump`, which archives Java's classes, then "
                    "`lakehouse prepare` again. Everything works without an archive, but Spark starts later."
                )
            path = folder / f"classes-{_digest(java, class_path)}-{written.stat().st_size}.jsa"
            written.replace(path)
            _delete_older(path)
            return path

        yield f'"-XX:ArchiveClassesAtExit={written}" -Xlog:disable', put_in_place


def _delete_older(path: Path) -> None:
    archives = sorted(path.parent.glob("classes-*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    same = path.stem.split("-")[1]
    replaced = [file for file in archives if file != path and file.stem.split("-")[1] == same]
    older = [file for file in archives if file != path and file not in replaced]
    for file in replaced + older[_OLDER_KEPT:]:
        file.unlink(missing_ok=True)


def _folder(class_path: str) -> Path:
    """Return the folder of Delta Lake's jars, which are first on the class path."""
    return Path(class_path.partition(os.pathsep)[0]).parent


def _digest(java: str, class_path: str) -> str:
    """Return a digest of what an archive depends on; files count with size and second, as Java compares them."""
    home = Path(java).resolve().parent.parent
    files = [home / "release", home / "lib" / "server" / "classes.jsa", *map(Path, class_path.split(os.pathsep))]
    facts = [(str(file), file.stat().st_size, int(file.stat().st_mtime)) for file in files if file.is_file()]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
