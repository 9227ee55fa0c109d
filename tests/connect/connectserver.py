"""A Spark Connect server with Delta Lake on the loopback address, of what PySpark's package brings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from lakehouse.settings import read_settings
from lakehouse.store.session import resolve_delta_jars

HOST = "127.0.0.1"


class ConnectServer:
    """A server that lives as long as its block."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "server.log"
        with socket.socket() as free:
            free.bind((HOST, 0))
            self.port = free.getsockname()[1]
        self.url = f"sc://{HOST}:{self.port}"

    def __enter__(self) -> ConnectServer:
        home = Path(pyspark.__file__).parent
        conf = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
        command = [home / "bin" / "spark-submit", "--master", "local[2]", "--driver-memory", "2g"]
        command += ["--driver-class-path", os.pathsep.join(resolve_delta_jars(read_settings()))]
        command += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        environment = os.environ | {"SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
        environment.pop("SPARK_REMOTE", None)
        with self.log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.log.parent)
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def _wait(self) -> None:
        until = time.monotonic() + 180
        while time.monotonic() < until and self._process.poll() is None:
            with socket.socket() as tried:
                if tried.connect_ex((HOST, self.port)) == 0:
                    return
            time.sleep(0.5)
        raise RuntimeError(f"the Connect server does not start:\n{self.log.read_text()[-3000:]}")
