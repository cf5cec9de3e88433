"""Two CPU devices in two roles: the same answers in every partition, and clear refusals."""

import json
import re
import subprocess
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import BINARY, DEMO, Server, ask

QUESTIONS = [("What is in the picture?", "picture2.jpg"), ("How many shapes are there?", "picture2.jpg")]
CONFIG_ERROR = 78  # src/app/exit_codes.h
TWO = ("--consumer", "cpu:0", "--datacenter", "cpu:1", "--dtype", "float32")
ARMS = {
    "modality": ("--steal", "off"),
    "modality, stealing": ("--steal", "on"),
    "modality, staged": ("--steal", "off", "--transfer", "staged"),
    "modality, cut before the projector": ("--steal", "off", "--cut", "pre"),
    "modality, cut after the projector, stealing": ("--steal", "on", "--cut", "post"),
    "stage": ("--partition", "stage"),
    "stage, cut before the projector": ("--partition", "stage", "--cut", "pre"),
    "colocated": ("--partition", "colocated"),
    "colocated, cut before the projector": ("--partition", "colocated", "--cut", "pre"),
}
SHARED = ("--datacenter", "cpu:0,cpu:1", "--tensor-parallel", "2", "--dtype", "float32")


def answers(server) -> list[str]:
    """Texts of all questions, asked at once, with and without a picture."""
    client = server.client()

    def one(question: tuple[str, ...]) -> str:
        reply = client.chat.completions.create(model="llava", temperature=0, max_tokens=40, messages=ask(*question))
        return reply.choices[0].message.content

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, [*QUESTIONS, ("Hello!",), ("Thank you.",)] * 3))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What one device answers."""
    server = Server(tmp_path_factory.mktemp("one"), "--dtype", "float32")
    texts = answers(server)
    assert server.stop() == 0
    return texts


@pytest.mark.parametrize("arm", ARMS)
def test_every_partition_answers_alike(start, expected, arm):
    """The same texts as one device gives, and a clean stop."""
    server = start(*TWO, *ARMS[arm])
    assert answers(server) == expected
    assert server.stop() == 0


def test_two_devices_that_share_the_model_answer_alike(start, expected):
    """Tensor parallelism: the texts of one device, a table that says so, the bytes that it read, and a clean stop."""
    server = start(*SHARED)
    printed = "\n".join(server.lines)
    assert "first of its group" in printed
    assert "text on cpu:0 + cpu:1 (tensor parallel)" in printed
    assert answers(server) == expected
    with urllib.request.urlopen(server.url + "/metrics", timeout=10) as reply:
        metrics = reply.read().decode()
    assert re.search(r'transfer_bytes_total\{[^}]*kind="collective"\} [1-9]', metrics)
    assert re.search(r'transfer_bytes_total\{[^}]*kind="kv"\} 0\n', metrics)
    with urllib.request.urlopen(server.url + "/debug/timeline", timeout=10) as reply:
        events = json.load(reply)["traceEvents"]
    lanes = {event["tid"] for event in events if event["name"] == "decode"}
    assert len(lanes) == 2 and all(event["args"]["bytes"] > 0 for event in events if event["name"] == "decode")
    assert server.stop() == 0


def test_the_table_at_start_names_devices_roles_and_links(start):
    """What was chosen is printed before the ready line."""
    server = start(*TWO, "--steal", "off")
    printed = "\n".join(server.lines)
    assert "cpu:0" in printed and "consumer" in printed
    assert "cpu:1" in printed and "datacenter" in printed
    assert "link cpu:0 -> cpu:1: peer" in printed
    assert (
        "cut before the projector: 64 rows of 128 float32 = 32768 bytes for a picture of 640 x 480 (after it: 49152)"
        in printed
    )


@pytest.mark.parametrize("flags", [(), ("--partition", "colocated")])
def test_pictures_that_stay_on_a_device_are_told(start, flags):
    """Nothing is cut where a tower and its language model share a device."""
    server = start(*(TWO if flags else ()), "--cut", "pre", *flags)
    cuts = [line for line in server.lines if line.startswith("cut")]
    assert cuts == (["cut: pictures stay on the device that answers"] if flags else [])


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--consumer", "cpu:0"), "--datacenter"),
        (("--consumer", "cpu:0", "--datacenter", "cuda:0"), "cuda:0"),
        (("--partition", "stage"), "both roles"),
        (("--consumer", "cpu:0", "--datacenter", "cpu:1", "--tensor-parallel", "2"), "--tensor-parallel"),
        (("--tensor-parallel", "2"), "--tensor-parallel 2 does not divide the 1 datacenter device"),
        (("--datacenter", "cpu:0,cpu:1", "--tensor-parallel", "2", "--partition", "stage"), "--partition stage"),
        (("--datacenter", "cpu:0,cpu:1", "--tensor-parallel", "2", "--steal", "on"), "--steal on"),
    ],
)
def test_roles_that_cannot_be_are_one_line(flags, says):
    """The exit code of a wrong configuration, and one line that names what is wrong."""
    ended = subprocess.run(
        [BINARY, "serve", DEMO, "--port", "0", "--log-path", "none", *flags],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == CONFIG_ERROR, ended
    complaints = [line for line in ended.stderr.splitlines() if not line.startswith("heteroserve info: ")]
    assert len(complaints) == 1 and says in complaints[0], ended.stderr
