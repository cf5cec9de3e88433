"""Installs the built packages in a small Debian and runs what they install: tools/deb_check.py [--mirror URL].

Install, answer a picture question by the unit's own command line as the service's user, edit the settings, upgrade, a
downgrade that the newer request log refuses, remove, purge, install anew. Needs root, debootstrap and, for the first
run, a Debian mirror; `make deb` goes before. Then the unit under systemd itself, where that boots. Everything is below
build/deb-check; mounts and processes end with it.
"""

import argparse
import base64
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build/deb-check"
BASE = WORK / "base"
BOX = WORK / "box"
UNIT = "lib/systemd/system/heteroserve.service"
NEWER = "99.0"


def fail(message: str) -> None:
    """Ends the script."""
    print(f"deb-check: {message}", file=sys.stderr)
    sys.exit(1)


def run(*command: object, **options) -> str:
    """A command's output; what it said when it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def inside(*command: object) -> str:
    """The same in the box, as root and without questions."""
    return run(
        "chroot", BOX, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", *command
    )


def say(what: str) -> None:
    """One line a step that held."""
    print(f"deb-check: {what}", flush=True)


def prepare_base(package: Path, mirror: str | None) -> None:
    """A minimal Debian with what the package depends on; made once, and again when the dependencies change."""
    depends = run("dpkg-deb", "-f", package, "Depends").strip()
    stamp = WORK / "base.depends"
    if stamp.exists() and stamp.read_text() == depends:
        return
    stamp.unlink(missing_ok=True)
    if not shutil.which("debootstrap"):
        fail("debootstrap is needed: packaging/install-deps.sh --deb")
    if not (BASE / "usr/bin/apt-get").exists():
        shutil.rmtree(BASE, ignore_errors=True)
        say("fetching a minimal Debian, once")
        run("debootstrap", "--variant=minbase", "bookworm", BASE, *([mirror] if mirror else []))
    shutil.copy("/etc/resolv.conf", BASE / "etc/resolv.conf")
    environment = {k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}
    environment |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
    run("chroot", BASE, "apt-get", "update", env=environment)
    install = ("apt-get", "satisfy", "-y", "--no-install-recommends", depends)
    run("chroot", BASE, *install, env=environment)
    run("chroot", BASE, "apt-get", "clean")
    stamp.write_text(depends)


def newer_package(package: Path) -> Path:
    """The same program under a later version, whose settings file has one line more."""
    tree = WORK / "newer"
    shutil.rmtree(tree, ignore_errors=True)
    run("dpkg-deb", "-R", package, tree)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {NEWER}", control.read_text(), flags=re.MULTILINE))
    with open(tree / "etc/heteroserve/heteroserve.toml", "a", encoding="utf-8") as settings:
        settings.write("# A later version says more.\n")
    made = WORK / f"heteroserve_{NEWER}_amd64.deb"
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-b", tree, made)
    shutil.rmtree(tree)
    return made


def enter_box() -> None:
    """A copy of the base, with /proc, in namespaces of this script's own."""
    shutil.rmtree(BOX, ignore_errors=True)
    run("cp", "-a", "--reflink=auto", BASE, BOX)
    run("mount", "-t", "proc", "proc", BOX / "proc")
    (BOX / "etc/dpkg/dpkg.cfg.d/box").write_text("force-unsafe-io\n")  # nothing here outlives the script
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:  # its loopback is down at first
        request = struct.pack("16sh14x", b"lo", 1)
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS, IFF_UP


class Service:
    """The unit's own command line, as systemd would run it: its user, environment, folders, mask, notify socket."""

    def __init__(self, wanted_status: str = "STATUS=serving"):
        unit = (BOX / UNIT).read_text(encoding="utf-8")

        def all_of(key: str) -> list[str]:
            return re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)

        environment = {"PATH": "/usr/bin:/bin", "HOME": "/var/lib/heteroserve", "NOTIFY_SOCKET": "/run/notify"}
        environment |= {"STATE_DIRECTORY": "/var/lib/heteroserve", "CACHE_DIRECTORY": "/var/cache/heteroserve"}
        lines = all_of("Environment")
        for file in all_of("EnvironmentFile"):
            lines += (BOX / file.lstrip("-/")).read_text(encoding="utf-8").splitlines()
        environment |= dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        user, group = all_of("User")[0], all_of("Group")[0]
        (BOX / "run/notify").unlink(missing_ok=True)
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(BOX / "run/notify"))
        os.chmod(BOX / "run/notify", 0o666)
        self.manager.settimeout(60)
        command = [
            shutil.which("chroot") or "chroot",
            str(BOX),
            "setpriv",
            "--reuid",
            user,
            "--regid",
            group,
            "--init-groups",
            "--no-new-privs",
        ]
        command += ["--inh-caps=-all", "--bounding-set=-all", *all_of("ExecStart")[0].split()]
        mask = int(all_of("UMask")[0], 8)
        self.process = subprocess.Popen(
            command, env=environment, umask=mask, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.status = ""
        while wanted_status and not self.status.startswith(wanted_status):
            if self.process.poll() is not None:
                fail(f"the service ended with {self.process.returncode}: {self.process.stderr.read()}")
            self.status = self.manager.recv(4096).decode()

    def stop(self) -> None:
        """As `systemctl stop`; 0 is the only good end."""
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(30) != 0:
            fail(f"the service ended with {self.process.returncode}: {self.process.stderr.read()}")
        self.manager.close()


def refused() -> str:
    """The one line that a start says which cannot be; the exit code keeps systemd from trying again."""
    service = Service(wanted_status="")
    code = service.process.wait(60)
    said = service.process.stderr.read().splitlines()
    service.manager.close()
    expect(code == 78, f"exit code {code} instead of 78: {said}")
    expect(len(said) == 1, f"more than one line: {said}")
    return said[0]


def expect(condition: bool, otherwise: str) -> None:
    """A check of this script."""
    if not condition:
        fail(otherwise)


def ask(port: int, key: str = "") -> tuple[int, str]:
    """A question about the first shipped picture, by curl: status, and the answer or the error's code."""
    examples = BOX / "usr/share/heteroserve/examples"
    picture = base64.b64encode((examples / "picture1.png").read_bytes()).decode()
    parts = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}]
    parts.append({"type": "text", "text": "What is in the picture?"})
    body = {"model": "llava", "temperature": 0, "messages": [{"role": "user", "content": parts}]}
    command = ["curl", "-s", "-w", "\n%{http_code}", "-H", "Content-Type: application/json", "-d", "@-"]
    command += ["-H", f"Authorization: Bearer {key}"] if key else []
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    answer, status = run(*command, url, input=json.dumps(body)).rsplit("\n", 1)
    reply = json.loads(answer)
    if status != "200":
        return int(status), reply["error"]["code"]
    return 200, reply["choices"][0]["message"]["content"]


def owner(path: str) -> tuple[str, str]:
    """User and mode of a file in the box."""
    about = (BOX / path).stat()
    users = dict(line.split(":")[2::-2] for line in (BOX / "etc/passwd").read_text().splitlines())
    return users.get(str(about.st_uid), "?"), oct(about.st_mode & 0o777)


def check_install(package: Path) -> None:
    """What is there afterwards, and that it answers."""
    inside("dpkg", "-i", f"/{package.name}")
    expect(owner("var/lib/heteroserve") == ("heteroserve", "0o750"), str(owner("var/lib/heteroserve")))
    expect(owner("etc/default/heteroserve")[1] == "0o640", str(owner("etc/default/heteroserve")))
    groups = inside("id", "-nG", "heteroserve").split()
    expect({"video", "render"} <= set(groups), f"groups of the user: {groups}")
    enabled = BOX / "etc/systemd/system/multi-user.target.wants/heteroserve.service"
    expect(enabled.is_symlink(), "the unit is not enabled")
    version = run("dpkg-deb", "-f", package, "Version").strip()
    expect(version in inside("heteroserve", "--version"), "the program has another version")
    expect("good" in inside("heteroserve", "config", "check"), "the shipped settings are not good")
    say(f"installed {version}: user, folders, unit")


def check_answer() -> None:
    """With the settings as they ship; then with the first API key."""
    truth = json.loads((BOX / "usr/share/heteroserve/examples/examples.json").read_text())[0]["truth"]
    service = Service()
    expect("serving llava at http://127.0.0.1:8080" in service.status, service.status)
    answered = ask(8080)
    expect(answered == (200, truth), f"answered {answered} instead of {truth}")
    say(f"the unit's command line answers as its user: {truth}")
    key = inside("heteroserve", "keys", "create", "boss", "--admin").strip()
    expect(owner("var/lib/heteroserve/keys.db")[0] == "heteroserve", "root's keys are root's")
    deadline = time.monotonic() + 20
    while ask(8080)[0] != 401:
        expect(time.monotonic() < deadline, "the key does not count")
        time.sleep(0.1)
    expect(ask(8080, key) == (200, truth), "the key opens nothing")
    service.stop()
    logged = [json.loads(line) for line in inside("heteroserve", "logs", "--json").splitlines()]
    expect(sum(row["status"] == 200 for row in logged) >= 2, f"the log has {logged}")
    expect(owner("var/lib/heteroserve/requests.db")[0] == "heteroserve", "the log is not the service's")
    say("an API key made by root counts, and the request log has what was asked")


def check_upgrade(newer: Path) -> None:
    """An edited settings file stays; so does what was logged."""
    settings = BOX / "etc/heteroserve/heteroserve.toml"
    edited = settings.read_text().replace("#port = 8080", "port = 8081")
    settings.write_text(edited)
    (BOX / "etc/heteroserve/conf.d/queue.toml").write_text("[engine]\nmax_queue = 7\n")
    inside("dpkg", "--force-confdef", "--force-confold", "-i", f"/{newer.name}")
    expect(settings.read_text() == edited, "the edited settings are gone")
    expect("A later version" in Path(f"{settings}.dpkg-dist").read_text(), "the new settings are not beside them")
    shown = inside("heteroserve", "config")
    expect(bool(re.search(r"max_queue += 7 .*conf.d/queue.toml", shown)), "the drop-in does not count")
    service = Service()
    expect(ask(8081)[1] == "invalid_api_key" or ask(8081)[0] == 401, "the keys are gone")
    service.stop()
    expect(len(inside("heteroserve", "logs", "--json").splitlines()) >= 2, "the log is gone")
    say("upgraded: edited settings, drop-ins, keys and log stay")


def check_downgrade(package: Path) -> None:
    """A log that a later version has upgraded is refused in one line, and nothing is lost."""
    log = BOX / "var/lib/heteroserve/requests.db"
    with sqlite3.connect(log) as database:
        known = database.execute("PRAGMA user_version").fetchone()[0]
        database.execute("PRAGMA user_version = 1000")
    inside("dpkg", "--force-downgrade", "--force-confold", "-i", f"/{package.name}")
    said = refused()
    expect("requests.db" in said and "1000" in said, said)
    with sqlite3.connect(log) as database:
        database.execute(f"PRAGMA user_version = {known}")
    say(f"a downgrade is refused: {said}")
    drop_in = BOX / "etc/heteroserve/conf.d/wrong.toml"
    drop_in.write_text("[server]\nprot = 1\n")
    said = refused()
    expect("prot" in said and "port" in said, said)
    drop_in.unlink()
    Service().stop()
    say("a wrong setting is refused, and all is well without it")


def check_removal(package: Path) -> None:
    """Remove keeps what was made; purge keeps what is the administrator's elsewhere."""
    models = BOX / "srv/models"
    models.mkdir(parents=True)
    (models / "mine").write_text("x")
    (BOX / "etc/heteroserve/conf.d/queue.toml").write_text('[model]\npath = "/srv/models/mine"\n')
    inside("dpkg", "-r", "heteroserve")
    for path in ("var/lib/heteroserve/requests.db", "var/lib/heteroserve/keys.db", "etc/heteroserve/heteroserve.toml"):
        expect((BOX / path).exists(), f"remove took /{path}")
    expect(not (BOX / "usr/bin/heteroserve").exists(), "remove left the program")
    say("removed: state and settings stay")
    inside("dpkg", "-P", "heteroserve")
    for path in ("var/lib/heteroserve", "var/cache/heteroserve", "etc/heteroserve/heteroserve.toml", UNIT):
        expect(not (BOX / path).exists(), f"purge left /{path}")
    expect((models / "mine").exists(), "purge took the administrator's models")
    links = list((BOX / "etc/systemd/system").rglob("heteroserve*"))
    expect(not links, f"purge left {links}")
    say("purged: state is gone, models elsewhere stay")
    shutil.rmtree(BOX / "etc/heteroserve", ignore_errors=True)
    inside("dpkg", "-i", f"/{package.name}")
    Service().stop()
    say("installed anew, and it serves")


class Booted:
    """The box with its own systemd as first process, in a control group that goes with it."""

    def __init__(self):
        group = Path("/sys/fs/cgroup/systemd" if Path("/sys/fs/cgroup/systemd").is_dir() else "/sys/fs/cgroup")
        self.group = group / "heteroserve-deb-check"
        self.group.mkdir(exist_ok=True)
        command = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork"]
        command += [str(ROOT / "tools/deb_boot.sh"), str(BOX)]
        enter = 'echo $$ > "$0/cgroup.procs"; exec "$@"'
        with open(WORK / "boot.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", enter, str(self.group), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.enter: list[str] = []

    def find_first(self) -> bool:
        """systemd is there when its own tool can ask it."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        first = children.read_text().split() if children.exists() else []
        if not first:
            return False
        self.enter = ["nsenter", "-t", first[0], "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w", "/usr/bin/env", "-i"]
        self.enter.append("PATH=/usr/sbin:/usr/bin:/sbin:/bin")
        return self.show("Version", unit="") != ""

    def show(self, name: str, unit: str = "heteroserve") -> str:
        """A property of the unit, or of systemd itself."""
        command = [*self.enter, "systemctl", "show", *([unit] if unit else []), "-p", name, "--value"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    def do(self, *command: str) -> None:
        """In the box; it may fail, where the state after it is what counts."""
        subprocess.run([*self.enter, *command], capture_output=True)

    def ask(self, *command: str) -> str:
        """What a command in the box prints."""
        return subprocess.run([*self.enter, *command], capture_output=True, text=True).stdout

    def end(self) -> None:
        """All that runs in it goes with its first process."""
        if self.enter:
            os.kill(int(self.enter[2]), signal.SIGKILL)
        self.process.kill()
        self.process.wait(10)
        until(self.remove_group, 30)

    def remove_group(self) -> bool:
        """True when it is gone: processes that were killed hold it for a moment."""
        folders = [each for each in self.group.rglob("*") if each.is_dir()]
        try:
            for folder in [*sorted(folders, reverse=True), self.group]:
                folder.rmdir()
        except OSError:
            return False
        return True


def until(condition, seconds: float) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def check_systemd() -> None:
    """The unit with its sandbox, where this machine lets a systemd boot: watchdog, restart, no restart after 78."""
    override = BOX / "etc/systemd/system/heteroserve.service.d"
    override.mkdir(parents=True, exist_ok=True)
    (override / "watchdog.conf").write_text("[Service]\nWatchdogSec=4\n")
    booted = Booted()
    try:
        if not until(booted.find_first, 60):
            say(f"left out: systemd does not boot here ({WORK / 'boot.log'})")
            return
        serving = until(lambda: booted.show("StatusText").startswith("serving llava"), 60)
        expect(serving, f"under systemd: {booted.show('Result')}, exit {booted.show('ExecMainStatus')}")
        say(f"systemd runs the unit in its sandbox: {booted.show('StatusText')}")
        told = booted.ask("heteroserve", "doctor", "--as-service", "--json")
        areas = {each["area"] for each in json.loads(told)["findings"]}
        expect({"model", "log", "service"} <= areas, f"doctor --as-service: {told}")
        failed = [each for each in json.loads(told)["findings"] if each["status"] == "FAIL"]
        expect(not failed, f"doctor --as-service: {failed}")
        say("doctor finds nothing wrong from inside the sandbox")
        booted.do("bash", "-c", f"kill -STOP {booted.show('MainPID')}")
        expect(until(lambda: booted.show("NRestarts") == "1", 60), "the watchdog did not restart what stood still")
        expect(until(lambda: booted.show("StatusText").startswith("serving"), 60), "it is not back after the watchdog")
        (BOX / "etc/heteroserve/conf.d").mkdir(parents=True, exist_ok=True)
        (BOX / "etc/heteroserve/conf.d/wrong.toml").write_text("[server]\nprot = 1\n")
        booted.do("systemctl", "restart", "heteroserve")
        expect(until(lambda: booted.show("ActiveState") == "failed", 60), "a wrong setting did not end it")
        code, restarts = booted.show("ExecMainStatus"), booted.show("NRestarts")
        expect((code, restarts) == ("78", "0"), f"exit code {code}, restarted {restarts} times")
        say("what stands still is restarted by the watchdog, what is wrongly set is not")
    finally:
        booted.end()


def main() -> None:
    """Prepares with this machine's network, then goes on in namespaces of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", metavar="URL", help="where Debian is fetched from; else debootstrap decides")
    parser.add_argument("--in-namespaces", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if os.geteuid() != 0:
        fail("root is needed, for chroot and namespaces: sudo make deb-check")
    packages = [p for p in (ROOT / "build/deb").glob("heteroserve_*_amd64.deb")]
    if len(packages) != 1:
        fail("there is no package yet: make deb")
    WORK.mkdir(parents=True, exist_ok=True)
    if not options.in_namespaces:
        start = time.monotonic()
        prepare_base(packages[0], options.mirror)
        command = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", sys.executable, __file__]
        if subprocess.run([*command, "--in-namespaces"]).returncode != 0:
            sys.exit(1)
        check_systemd()
        shutil.rmtree(BOX)
        say(f"all held, {time.monotonic() - start:.0f} s")
        return
    enter_box()
    newer = newer_package(packages[0])
    for package in (packages[0], newer):
        shutil.copy(package, BOX / package.name)
    check_install(packages[0])
    check_answer()
    check_upgrade(newer)
    check_downgrade(packages[0])
    check_removal(packages[0])
    newer.unlink()


if __name__ == "__main__":
    main()
