"""The real server with the shipped demo model, on a port of its own choosing; tests of several folders start it."""

import http.client
import os
import re
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

import openai

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("SERVER_BINARY", ROOT / "build/release/heteroserve"))
DEMO = ROOT / "models/demo/llava"
PICTURES = ROOT / "models/demo/examples"


class Server:
    """One running `heteroserve serve`; stderr is kept for failure messages."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        model: Path | str = DEMO,
        file_bytes_max: int | None = None,
        open_files_max: int | None = None,
    ):
        self.log_path = folder / "requests.db"
        self.keys_path = folder / "keys.db"
        command = [
            str(BINARY),
            "serve",
            *([str(model)] if model else []),
            "--port",
            "0",
            "--log-path",
            str(self.log_path),
        ]
        command += ["--keys-path", str(self.keys_path), *flags]

        def limit_files() -> None:
            if file_bytes_max is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))
            if open_files_max is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (open_files_max, open_files_max))

        environment = {k: v for k, v in os.environ.items() if not k.startswith("HETEROSERVE_")}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit_files, env=environment
        )
        self.lines: list[str] = []
        self.ready = threading.Event()
        self.url = ""
        self.readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True)
            for stream in (self.process.stdout, self.process.stderr)
        ]
        for reader in self.readers:
            reader.start()
        if not self.ready.wait(60) or not self.url:
            self.process.kill()
            raise AssertionError("no ready line within 60 s:\n" + "\n".join(self.lines))

    def _read(self, stream) -> None:
        for line in stream:
            self.lines.append(line.rstrip("\n"))
            if found := re.search(r"(?:ready|listening): (http://\S+)", line):
                self.url = found.group(1).rstrip("/")
                self.ready.set()
        if self.process.poll() is not None:
            self.ready.set()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rsplit(":", 1)[1])

    def connection(self) -> http.client.HTTPConnection:
        """A bare HTTP connection, for what the clients do not let one send."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def client(self, **options) -> openai.OpenAI:
        """An OpenAI client of this server, without retries."""
        return openai.OpenAI(base_url=self.url + "/v1", api_key="unused", max_retries=0, **{"timeout": 60, **options})

    def stop(self, number: int = signal.SIGTERM, seconds: float = 30) -> int:
        """Signal it and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(seconds)
        for reader in self.readers:
            reader.join(5)
        return code


def wait_for(condition, seconds: float = 30.0, what: str = "condition"):
    """Poll until true and return what it was; the deadline is generous, the usual wait is milliseconds."""
    deadline = time.monotonic() + seconds
    while not (met := condition()):
        assert time.monotonic() < deadline, f"{what} not within {seconds} s"
        time.sleep(0.02)
    return met
