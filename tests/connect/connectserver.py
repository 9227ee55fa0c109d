"""A Spark Connect server with Delta Lake on the loopback address, of what PySpark's package brings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
from ports import LOOPBACK, free_port, wait_for_port

from lakehouse.settings import read_settings
from lakehouse.store.session import resolve_delta_jars


class ConnectServer:
    """A server that lives as long as its block."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "server.log"
        self.port = free_port()
        self.url = f"sc://{LOOPBACK}:{self.port}"

    def __enter__(self) -> ConnectServer:
        home = Path(pyspark.__file__).parent
        conf = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
        command = [home / "bin" / "spark-submit", "--master", "local[2]", "--driver-memory", "2g"]
        command += ["--driver-class-path", os.pathsep.join(resolve_delta_jars(read_settings()))]
        command += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        environment = os.environ | {"SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable}
        environment.pop("SPARK_REMOTE", None)
        with self.log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.log.parent)
        wait_for_port(self.port, self._process, self.log)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
