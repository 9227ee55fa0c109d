"""`lakehouse codegen` runs xrcg, of which a stand-in is on the PATH here; tests/clients runs the real one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from sitecatalogs import write_demo

from lakehouse.cli.main import cli

STAND_IN = """#!{python}
import json, sys, urllib.request
from pathlib import Path
arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
document = json.load(urllib.request.urlopen(arguments.pop("--definitions")))
out = Path(arguments.pop("--output"))
if arguments["--style"] == "broken":
    print("=== Template Rendering Error in x.jinja ===\\nError: no attribute 'endpoints'")
elif arguments["--style"] != "silent":
    (out / "src").mkdir(parents=True)
    (out / "src" / "code.py").write_text(json.dumps([sys.argv[1], arguments, document["registryid"], len(document)]))
"""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("codegen")
    write_demo(folder / "warehouse")
    return folder / "warehouse"


@pytest.fixture
def run(warehouse, tmp_path, monkeypatch):
    monkeypatch.setenv("LAKEHOUSE_READMODEL_DIR", str(warehouse.parent / "model"))

    def run(*arguments: str, with_xrcg: bool = True):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        if with_xrcg:
            (folder / "xrcg").write_text(STAND_IN.replace("{python}", sys.executable))
            (folder / "xrcg").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
        return CliRunner().invoke(cli, ["codegen", *arguments, "--warehouse", str(warehouse)], standalone_mode=False)

    return run


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["shop.orders.kafka", "--language", "python"],
            ["ShopOrdersKafka", "py", "kafkaconsumer", "--messagegroup", "shop.orders.kafka"],
        ),
        (
            ["/messagegroups/shop.orders.kafka/messages/shop.orders.OrderPaid", "--language", "Java", "--role", "producer"],
            ["ShopOrdersKafka", "java", "kafkaproducer", "--messagegroup", "shop.orders.kafka"],
        ),
        (
            ["shop.orders.kafka.consumer", "--language", "csharp"],
            ["ShopOrdersKafkaConsumer", "cs", "kafkaconsumer", "--endpoint", "shop.orders.kafka.consumer"],
        ),
        (["shop.orders", "--language", "go", "--style", "other"], ["ShopOrders", "go", "other", "--messagegroup", "shop.orders"]),
    ],
)
def test_xrcg_reads_the_catalog_and_gets_the_arguments_of_a_group(run, tmp_path, arguments, expected):
    out = tmp_path / "out"
    ran = run(*arguments, "--out", str(out), "--json")
    assert ran.return_value == 0, ran.output
    project, language, style, limit, name = expected
    wanted = {"--projectname": project, "--language": language, "--style": style, limit: name}
    assert json.loads((out / "src" / "code.py").read_text())[:3] == ["generate", wanted, "default"]
    assert json.loads(ran.stdout)["files"] == ["src/code.py"]


def test_without_xrcg_it_says_what_to_install_and_to_run(run, tmp_path):
    ran = run("shop.orders.kafka", "--language", "python", "--out", str(tmp_path / "out"), with_xrcg=False)
    assert ran.exception.exit_code == 2
    assert "pip install xrcg==" in str(ran.exception)
    assert "lakehouse serve --registry default" in str(ran.exception)
    assert "xrcg generate --projectname ShopOrdersKafka --language py --style kafkaconsumer" in str(ran.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("style", "reason"), [("broken", "no attribute 'endpoints'"), ("silent", "exit code 0")])
def test_what_xrcg_fails_at_is_an_error(run, tmp_path, style, reason):
    ran = run("shop.orders.kafka", "--language", "python", "--style", style, "--out", str(tmp_path / "out"))
    assert ran.exception.exit_code == 1
    assert reason in str(ran.exception)
    assert "xrcg generate --projectname" in str(ran.exception)


def test_wrong_arguments_are_refused(run, tmp_path):
    Path(tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.py").write_text("x")
    for xid, out, reason in (
        ("shop.orders.kafka", "full", "holds files"),
        ("/schemagroups/shop.orders.schemas", "out", "no such entity"),
        ("no.such.message", "out", "no.such.message"),
        ("shop.orders", "out", "for no protocol: name --style"),
    ):
        ran = run(xid, "--language", "python", "--out", str(tmp_path / out))
        assert ran.exception.exit_code == 2, xid
        assert reason in str(ran.exception)
