"""What lies in the folder in which a command runs is no part of the product."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.attack

PROTO = 'syntax = "proto3"; message M { string a = 1; }'


def test_a_module_in_the_current_folder_is_not_run_to_compile_protobuf(tmp_path):
    """The compiler of grpcio-tools was started by its name from the current folder (`python -m`)."""
    (tmp_path / "here" / "grpc_tools").mkdir(parents=True)
    for name in ("__init__.py", "protoc.py", "__main__.py"):
        (tmp_path / "here" / "grpc_tools" / name).write_text("open('ran', 'w').close()\n")
    script = tmp_path / "command.py"  # as the installed command, whose folder is not the current one
    script.write_text(
        f"from lakehouse.match.payload.protobuf import compiled\nprint(compiled('''{PROTO}''')[0].message_type[0].name)\n"
    )
    reported = subprocess.run([sys.executable, script], cwd=tmp_path / "here", capture_output=True, text=True, check=True)
    assert reported.stdout.strip() == "M"
    assert not (tmp_path / "here" / "ran").exists()
