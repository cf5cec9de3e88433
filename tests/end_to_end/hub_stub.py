"""A small Hugging Face hub on this machine: listings, files with ranges, a second host for large ones, and faults."""

import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        self.server.hub.answer(self)

    def log_message(self, *_) -> None:
        """Quiet."""


class HubStub:
    """Serves org/tiny with the files of a folder; `cdn` is another origin, where large files are."""

    def __init__(self, files: dict[str, bytes]):
        self.files = files
        self.sent = dict(files)  # tests may damage these
        self.token = ""  # when set, everything needs it
        self.cut_after = 0  # bytes of a large file before the connection breaks, as often as `cuts`
        self.cuts = 0
        self.bytes_per_s = 0  # of large files; 0: at once
        self.ranges = True
        self.seen: list[tuple[str, str, dict[str, str]]] = []  # host, path, headers
        self.servers = []
        for name in ("hub", "cdn"):
            server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
            server.daemon_threads = True
            server.hub, server.name = self, name
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            self.servers.append(server)
        self.url, self.cdn_url = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)

    @classmethod
    def of_folder(cls, folder: Path) -> "HubStub":
        """The model's own files, and some that nobody should fetch."""
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        return cls(files | {"pytorch_model.bin": b"pickle", "README.md": b"words"})

    def stop(self) -> None:
        """Both servers end."""
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def paths(self, host: str) -> list[str]:
        """What was asked of one of the hosts."""
        return [path for at, path, _ in self.seen if at == host]

    def listing(self) -> bytes:
        """GET /api/models/... with blobs=true."""
        siblings = []
        for name, data in self.files.items():
            git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            entry = {"rfilename": name, "size": len(data), "blobId": git}
            if name.endswith(".safetensors"):
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            siblings.append(entry)
        return json.dumps({"id": "org/tiny", "sha": COMMIT, "siblings": siblings}).encode()

    def answer(self, request: _Handler) -> None:
        """One request to either host."""
        host = request.server.name
        self.seen.append((host, request.path, dict(request.headers)))
        if host == "hub" and self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return self.reply(request, 401, b"{}", {"X-Error-Code": "GatedRepo"})
        if host == "hub" and request.path.startswith("/api/models/org/tiny/revision/main?"):
            return self.reply(request, 200, self.listing())
        found = re.fullmatch(rf"/(?:org/tiny/resolve/{COMMIT}|bytes)/([\w.-]+)", request.path)
        data = self.sent.get(found.group(1)) if found else None
        if data is None:
            return self.reply(request, 404, b"{}", {"X-Error-Code": "RepoNotFound"})
        if host == "hub" and found.group(1).endswith(".safetensors"):
            return self.reply(request, 302, b"", {"Location": f"{self.cdn_url}/bytes/{found.group(1)}"})
        return self.send_file(request, data)

    def send_file(self, request: _Handler, data: bytes) -> None:
        """With its range, its speed and its faults."""
        wanted = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", "")) if self.ranges else None
        begin = int(wanted.group(1)) if wanted else 0
        large = request.server.name == "cdn"
        request.send_response(206 if wanted else 200)
        if wanted:
            request.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        request.send_header("Content-Length", str(len(data) - begin))
        request.end_headers()
        data = data[begin:]
        if large and self.cuts > 0:
            self.cuts -= 1
            request.wfile.write(data[: self.cut_after])
            request.close_connection = True
            return
        try:
            while data:
                piece = self.bytes_per_s // 20 if large and self.bytes_per_s else len(data)
                request.wfile.write(data[:piece])
                data = data[piece:]
                if large and self.bytes_per_s:
                    time.sleep(0.05)
        except OSError:  # the client has left
            request.close_connection = True

    @staticmethod
    def reply(request: _Handler, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """A short answer."""
        request.send_response(status)
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
