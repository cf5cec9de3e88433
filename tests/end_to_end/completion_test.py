"""Completion in the shells themselves: real bash, zsh and fish are asked what they would offer."""

import shlex
import shutil
import subprocess

import pytest
from conftest import BINARY


def script_of(shell: str) -> str:
    """What the program prints for it."""
    return subprocess.run([BINARY, "completion", shell], capture_output=True, text=True, check=True).stdout


def bash(folder, *words: str) -> set[str]:
    """COMPREPLY with the cursor on the last word."""
    (folder / "script").write_text(script_of("bash"))
    line = " ".join(shlex.quote(word) for word in words)
    code = f"source ./script; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _heteroserve; "
    code += "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-uc", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def zsh(folder, *words: str) -> set[str]:
    """The same with zsh's own helpers replaced by ones that print what they are given."""
    (folder / "script").write_text(script_of("zsh"))
    line = " ".join(shlex.quote(word) for word in words)
    code = (
        "_describe() { local list=${@[-1]}; print -l -- ${(P)list%%:*}; }; _files() { print -l -- *; }; "
        f"source ./script; words=({line}); CURRENT={len(words)}; _heteroserve"
    )
    done = subprocess.run(["zsh", "-fc", code], cwd=folder, capture_output=True, text=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def fish(folder, *words: str) -> set[str]:
    """fish says itself what it would complete."""
    (folder / "script").write_text(script_of("fish"))
    line = shlex.quote(" ".join(words))
    code = f"source ./script; complete -C {line}"
    environment = {"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["fish", "-c", code], cwd=folder, capture_output=True, text=True, env=environment)
    assert "script" not in done.stderr, done.stderr
    return {each.split("\t")[0] for each in done.stdout.splitlines()}


@pytest.fixture(params=[bash, zsh, fish], ids=["bash", "zsh", "fish"])
def complete(request, tmp_path):
    """One shell's completion, in a folder with one picture."""
    if shutil.which(request.param.__name__) is None:
        pytest.skip(f"{request.param.__name__} is not installed (packaging/install-deps.sh --proxies)")
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "picture.png").touch()
    return lambda *words: request.param(folder, "heteroserve", *words)


def test_commands_flags_and_values_are_offered_where_they_belong(complete):
    """Also behind other flags and their values, even where a value is a command's name."""
    assert {"serve", "keys", "completion"} <= complete("")
    assert "manual" not in complete("")
    assert complete("keys", "") >= {"create", "list", "revoke", "usage"}
    assert "--host" in complete("serve", "--ho")
    assert "--hang-timeout" in complete("serve", "--port", "1", "--hang")
    assert "--per-minute" in complete("keys", "create", "--per")
    assert "--per-minute" not in complete("serve", "--per")
    assert complete("completion", "") >= {"bash", "zsh", "fish"}
    assert complete("config", "") >= {"show", "check", "template"}
    assert "--follow" in complete("logs", "--name", "serve", "--fol")
    assert "picture.png" in complete("run", "model", "--image", "")
    assert "picture.png" not in complete("serve", "--port", "")
