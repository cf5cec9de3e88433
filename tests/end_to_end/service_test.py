"""What a service manager sees of the real server: readiness, progress, signs of life, its end; a socket handed over."""

import os
import socket
import subprocess
import urllib.request

import pytest
from conftest import BINARY, DEMO, ROOT


def clean_environment(**more: str) -> dict[str, str]:
    """This environment without settings of the server."""
    return {**{k: v for k, v in os.environ.items() if not k.startswith("HETEROSERVE_")}, **more}


@pytest.fixture
def manager(tmp_path):
    """A bound datagram socket, as systemd has one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(30)
        yield listener


def serve(tmp_path, *flags, **options):
    """The server, watched every 200 ms, at a port of its own choosing."""
    command = [str(BINARY), "serve", *flags, "--port", "0", "--log-path", "none"]
    command += ["--keys-path", str(tmp_path / "keys.db")]
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    environment |= options.pop("environment", {})
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=clean_environment(**environment), **options)


def heard_until(manager: socket.socket, wanted: str) -> list[str]:
    """All that came, up to the first that begins so."""
    heard = []
    while not heard or not heard[-1].startswith(wanted):
        heard.append(manager.recv(4096).decode())
    return heard


def test_a_life_is_told_from_the_bound_socket_to_the_end(tmp_path, manager):
    """Ready before the model is loaded, pings throughout, and a status that names the address."""
    with serve(tmp_path, str(DEMO)) as server:
        heard = heard_until(manager, "STATUS=serving")
        assert heard[0] == "READY=1"
        assert heard[-1].startswith("STATUS=serving llava at http://127.0.0.1:")
        assert heard[-1].endswith(": 0 running, 0 waiting")
        for _ in range(3):
            heard_until(manager, "WATCHDOG=1")
        server.terminate()
        assert heard_until(manager, "STOPPING=1")
        assert manager.recv(4096).decode() == "STATUS=stopping: 0 requests under way"
        assert server.wait(30) == 0


def test_what_is_wrong_is_the_status_and_78(tmp_path, manager):
    """A model that cannot be loaded."""
    (tmp_path / "config.json").write_text('{"architectures": ["Nonsense"]}')
    with serve(tmp_path, str(tmp_path)) as server:
        assert server.wait(30) == 78
        assert "Nonsense" in manager.recv(4096).decode()


def test_the_services_default_model_is_served(tmp_path, manager):
    """As the unit names it, with no setting."""
    with serve(tmp_path, environment={"HETEROSERVE_DEFAULT_MODEL": str(DEMO)}) as server:
        assert "serving llava" in heard_until(manager, "STATUS=serving")[-1]
        server.terminate()
        assert server.wait(30) == 0


def test_a_socket_that_is_handed_over_is_served(tmp_path, manager):
    """As systemd does it: descriptor 3, bound and listening before the server is there."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        # LISTEN_PID is the server's own, so a shell that becomes the server sets it.
        script = f'exec 3<&{bound.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
        command = ["bash", "-c", script, "bash", str(BINARY), "serve", str(DEMO), "--port", "1"]
        command += ["--log-path", "none", "--keys-path", str(tmp_path / "keys.db")]
        environment = clean_environment(NOTIFY_SOCKET=str(tmp_path / "notify"))
        with subprocess.Popen(command, env=environment, pass_fds=[bound.fileno()]) as server:
            assert f"http://127.0.0.1:{port}" in heard_until(manager, "STATUS=serving")[-1]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=10) as reply:
                assert reply.status == 200
            server.terminate()
            assert server.wait(30) == 0


def test_gpu_setup_makes_a_node_for_each_gpu_and_unified_memory(tmp_path):
    """With a driver's folder and a nvidia-modprobe of this test."""
    for index, address in enumerate(("0000:01:00.0", "0000:41:00.0")):
        folder = tmp_path / "gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t NVIDIA\nDevice Minor: \t {index}\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    script = ROOT / "packaging/gpu-setup"

    def run() -> str:
        path = f"{tools}:/usr/bin:/bin"
        done = subprocess.run(
            ["/bin/sh", script, tmp_path / "gpus"], env={"PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "nvidia-modprobe is not installed" in run()
    (tools / "nvidia-modprobe").write_text('#!/bin/sh\necho "made $*"\n')
    (tools / "nvidia-modprobe").chmod(0o755)
    assert run().splitlines() == ["made -c 0", "made -c 1", "made -c 0 -u"]
