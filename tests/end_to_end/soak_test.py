"""Random clients for a moment: what `make soak` does for half an hour."""

import subprocess
import sys

from conftest import ROOT


def test_random_clients_leave_a_healthy_server():
    """The seed of a failure is in its output."""
    command = [sys.executable, str(ROOT / "tests/soak/soak.py"), "--seconds", "20"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
