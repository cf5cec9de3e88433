"""The package's own statements are true: its dependencies, version, unit, and the settings file it ships."""

import re
import shutil
import subprocess

import pytest
from conftest import BINARY, ROOT

DEBIAN = ROOT / "debian"


def test_build_dependencies_are_those_of_the_install_script():
    """One list, told twice."""
    control = (DEBIAN / "control").read_text(encoding="utf-8")
    field = re.search(r"^Build-Depends:(.*?)^\S", control, re.MULTILINE | re.DOTALL).group(1)
    named = {re.sub(r"\(.*?\)", "", each).strip() for each in field.split(",") if each.strip()}
    listed = subprocess.run(
        [ROOT / "packaging/install-deps.sh", "--build", "--list"], capture_output=True, text=True, check=True
    )
    assert named - {"debhelper-compat", "dh-sequence-installsysusers", "scdoc"} == set(listed.stdout.split())


def test_the_changelog_begins_with_this_version():
    """The package and the program call themselves the same."""
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    assert (DEBIAN / "changelog").read_text(encoding="utf-8").startswith(f"heteroserve ({version}) ")


def test_the_driver_is_no_more_than_suggested():
    """apt installs what is recommended: a kernel driver on a box without a GPU."""
    control = (DEBIAN / "control").read_text(encoding="utf-8")
    assert "Recommends" not in control
    assert not re.search(r"^Depends:.*nvidia", control, re.MULTILINE)


def test_the_unit_is_hardened(tmp_path):
    """systemd's own score: 2.0 of 10 at most, where 10 is a process that may do anything."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "heteroserve.service"
    unit.write_bytes((DEBIAN / "heteroserve.service").read_bytes())
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=20", "--no-pager", unit], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert re.search(r"Overall exposure level for heteroserve.service: [01]\.|: 2\.0", done.stdout)


def test_the_unit_waits_longer_than_answers_may_take():
    """Else systemd cuts off what the drain lets finish; and 78 is what the program says of wrong settings."""
    unit = (DEBIAN / "heteroserve.service").read_text(encoding="utf-8")
    shown = subprocess.run([BINARY, "config", "template"], capture_output=True, text=True, check=True).stdout
    drain_s = int(re.search(r"^#shutdown_timeout = (\d+)$", shown, re.MULTILINE).group(1))
    assert int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE).group(1)) >= drain_s + 10
    assert "78" in re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE).group(1).split()
