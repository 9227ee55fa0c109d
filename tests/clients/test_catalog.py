"""`xrcg catalog` makes, edits and removes a group and a message in ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from programs import serving

XRCG = Path(sys.executable).parent / "xrcg"


@pytest.fixture(scope="module")
def url(folder, tmp_path_factory):
    place = tmp_path_factory.mktemp("written")
    shutil.copytree(folder / "w", place / "w")
    options = ("--registry", "mine", "--writable")
    with serving(place / "w", place / "model", *options, JAVA_HOME="/nowhere", PATH="/nowhere") as served:
        yield served


def run(url, *arguments):
    return subprocess.run([str(XRCG), "catalog", *arguments, "--catalog", url], capture_output=True, text=True, check=False)


def catalog(url, *arguments):
    ran = run(url, *arguments)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def test_a_group_and_a_message_are_made_edited_and_removed(url):
    group, message = ("--messagegroupid", "g"), ("--messageid", "m")
    catalog(url, "messagegroup", "add", *group, "--name", "Orders", "--envelope", "CloudEvents/1.0")
    assert get(f"{url}/messagegroups/g")["name"] == "Orders"
    reported = ("--envelope", "cloudevents10", "--envelopemetadata-type-value", "a.b")
    catalog(url, "messagegroup", "message", "add", *group, *message, *reported)
    catalog(url, "messagegroup", "message", "edit", *group, *message, "--name", "edited")
    shown = json.loads(catalog(url, "messagegroup", "message", "show", *group, *message))
    assert (shown["name"], shown["epoch"], shown["envelopemetadata"]["type"]["value"]) == ("edited", 2, "a.b")
    # It sends the epoch of the default Version, which is not that of the message any more: that is in `meta`
    ran = run(url, "messagegroup", "message", "remove", *group, *message)
    assert (ran.returncode != 0, list(get(f"{url}/messagegroups/g/messages"))) == (True, ["m"])
    catalog(url, "messagegroup", "message", "add", *group, "--messageid", "new", *reported)
    catalog(url, "messagegroup", "message", "remove", *group, "--messageid", "new")
    assert list(get(f"{url}/messagegroups/g/messages")) == ["m"]
    catalog(url, "messagegroup", "remove", *group)
    assert get(f"{url}/messagegroups") == {}
