"""A Spark standalone cluster on the loopback address: a master, and workers of one core each (two unless reported otherwise).

`python tests/cluster/sparkcluster.py FOLDER` runs one until it is interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

HOST = "127.0.0.1"


class Cluster:
    """A cluster that lives as long as its block; its processes know nothing of this checkout."""

    def __init__(self, folder: Path, port: int = 17077, web: int = 18081, memory: str = "2g", workers: int = 2) -> None:
        self.folder = folder
        self.workers = workers
        self.master = f"spark://{HOST}:{port}"
        self.web = web
        self.memory = memory
        self.ports = (port, web)
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        port, web = self.ports
        self._start("master", "master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(web))
        self._wait(0)
        for number in range(1, self.workers + 1):
            work = self.folder / f"worker{number}"
            place = ["--host", HOST, "--webui-port", str(web + number), "--work-dir", str(work)]
            self._start(f"worker{number}", "worker.Worker", *place, "--cores", "1", "--memory", self.memory, self.master)
        self._wait(self.workers)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(30)

    def executors(self) -> dict[str, list[Path]]:
        """Return for each worker the folders of the executors that ran there."""
        return {f"worker{n}": sorted((self.folder / f"worker{n}").glob("app-*/*")) for n in range(1, self.workers + 1)}

    def _start(self, name: str, what: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        kept = {key: os.environ[key] for key in ("PATH", "JAVA_HOME", "HOME") if key in os.environ}
        kept |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "512m"}
        kept["SPARK_MASTER_OPTS"] = "-Dspark.master.rest.enabled=false"
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{name}.log").open("w") as log:
            command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{what}", *arguments]
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=kept, cwd=self.folder))

    def _wait(self, workers: int) -> None:
        until = time.monotonic() + 90
        while time.monotonic() < until:
            try:
                with urlopen(f"http://{HOST}:{self.web}/json/", timeout=5) as reported:
                    if json.load(reported)["aliveworkers"] >= workers:
                        return
            except (URLError, OSError):
                pass  # it is still starting
            time.sleep(0.5)
        raise RuntimeError(f"the cluster does not start; see the logs in {self.folder}")


if __name__ == "__main__":
    with Cluster(Path(sys.argv[1])) as cluster:
        sys.stdout.write(f"{cluster.master}, http://{HOST}:{cluster.web}\n")
        sys.stdout.flush()
        try:
            signal.pause()
        except KeyboardInterrupt:
            sys.exit(0)
