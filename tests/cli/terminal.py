"""What `kiln` shows on a terminal and elsewhere, how it fails, and what Ctrl-C leaves behind.

    terminal.py KILN MODEL.pt2

Every test is a function; a pseudo-terminal stands in for the person.
"""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

KILN, MODEL = sys.argv[1:3]
ESCAPE = "\033["


def environment(folder, **more):
    return {**os.environ, "KILN_CACHE": "off", "TMPDIR": str(folder), "TERM": "xterm", **more}


def plain(*arguments, folder, **more):
    """Runs kiln with pipes for its streams."""
    return subprocess.run([KILN, *arguments], env=environment(folder, **more), capture_output=True, text=True)


def on_terminal(*arguments, folder, **more):
    """Runs kiln with a terminal for all streams; returns what it showed and its exit code."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(KILN, [KILN, *arguments], environment(folder, **more))
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # The other side is closed.
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_progress_is_a_bar_that_is_overwritten_on_a_terminal(folder):
    shown, code = on_terminal("compile", MODEL, "-o", f"{folder}/out.pt2", folder=folder)
    assert code == 0, shown
    assert re.search(r"\rkernels +\[[#.]+\] \d+/\d+  \d+\.\d s", shown), shown
    assert "kernels" in shown and "link" in shown
    # The bar is wiped away before the result is printed.
    assert shown.rstrip().splitlines()[-1].split(ESCAPE + "K")[-1].startswith(f"{folder}/out.pt2: "), shown


def test_progress_is_plain_lines_elsewhere_and_not_on_standard_output(folder):
    result = plain("compile", MODEL, "-o", f"{folder}/out.pt2", folder=folder)
    assert result.returncode == 0, result.stderr
    assert ESCAPE not in result.stderr + result.stdout and "\r" not in result.stderr
    stages = [line.split()[-1] for line in result.stderr.splitlines()]
    assert stages == ["trace", "schedule", "kernels", "link"], stages
    assert result.stdout.startswith(f"{folder}/out.pt2: ") and result.stdout.count("\n") == 1


def test_every_command_speaks_json(folder):
    package = f"{folder}/out.pt2"
    commands = [
        ["compile", MODEL, "-o", package],
        ["run", package],
        ["bench", package, "--seconds", "0.05", "--instances", "1"],
        ["inspect", MODEL],
        ["inspect", package],
        ["inspect", MODEL, "--partition"],
        ["doctor"],
        ["cache", "stats"],
        ["cache", "list"],
    ]
    for command in commands:
        result = plain(*command, "--json", folder=folder)
        assert result.returncode == 0, (command, result.stderr)
        json.loads(result.stdout)


def test_a_package_knows_how_many_instances_it_wants(folder):
    package = f"{folder}/out.pt2"
    assert plain("compile", MODEL, "-o", package, "--instances", "3", folder=folder).returncode == 0
    described = json.loads(plain("inspect", package, "--json", folder=folder).stdout)
    assert described["metadata"]["KILN_INSTANCES"] == "3", described["metadata"]


def test_errors_are_one_sentence_and_an_exit_code(folder):
    broken = pathlib.Path(folder) / "broken.pt2"
    broken.write_text("no archive")
    result = plain("compile", broken, "-o", f"{folder}/out.pt2", "--json", folder=folder)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("kiln: ") and ESCAPE not in result.stderr
    assert json.loads(result.stdout)["error"]
    assert plain("compile", folder=folder).returncode == 2
    assert plain("no-such-command", folder=folder).returncode == 2
    assert plain("compile", "absent.pt2", "-o", "x.pt2", folder=folder).returncode == 2


def test_the_version_is_told(folder):
    result = plain("--version", folder=folder)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"kiln \d+\.\d+\.\d+, libtorch \d+\.\d+\.\S+\n", result.stdout), result.stdout


def test_a_failure_before_the_command_begins_is_told(folder):
    result = plain("doctor", folder=folder, TMPDIR=f"{folder}/absent")
    assert result.returncode == 1, result
    assert result.stderr.splitlines()[-1].startswith("kiln: "), result.stderr


def test_names_of_files_need_not_be_utf8(folder):
    command = [KILN, "compile", MODEL, "-o", os.fsencode(folder) + b"/out\xff.txt", "--json"]
    result = subprocess.run(command, env=environment(folder), capture_output=True)
    assert result.returncode == 1, result.stderr
    assert "out\ufffd.txt" in json.loads(result.stdout)["error"], result.stdout


def test_output_that_cannot_be_written_is_a_failure(folder):
    with open("/dev/full", "wb") as full:
        for command in (["completion", "bash"], ["doctor", "--json"], ["--help"]):
            result = subprocess.run([KILN, *command], env=environment(folder), stdout=full, stderr=subprocess.PIPE)
            assert result.returncode == 1, (command, result)
            assert b"cannot write to standard output" in result.stderr, (command, result.stderr)


def test_colours_are_for_terminals_and_can_be_refused(folder):
    broken = pathlib.Path(folder) / "broken.pt2"
    broken.write_text("no archive")
    command = ["compile", str(broken), "-o", f"{folder}/out.pt2"]
    coloured = ESCAPE + "1;31mkiln:" + ESCAPE + "0m"
    assert coloured in on_terminal(*command, folder=folder)[0]
    assert coloured not in on_terminal(*command, folder=folder, NO_COLOR="1")[0]


def test_the_doctor_calls_nothing_good_that_is_not_there(folder):
    tools = pathlib.Path(folder) / "tools"  # A PATH with a compiler, but without nvcc and dot.
    tools.mkdir()
    for name in ["g++", "as", "ld", "ld.gold"]:
        if found := shutil.which(name):
            (tools / name).symlink_to(found)

    result = plain("doctor", folder=folder, PATH=str(tools), KILN_NVRTC="/nowhere/libnvrtc.so")

    assert re.search(r"^none  NVRTC: .*Install the Python package nvidia-cuda-nvrtc", result.stdout, re.M), result.stdout
    assert re.search(r"^none  graphviz: ", result.stdout, re.M), result.stdout


def test_the_doctor_says_which_linker_models_are_linked_with(folder):
    compiler = pathlib.Path(folder) / "without-gold"
    compiler.write_text("#!/bin/sh\ncase \"$*\" in *-fuse-ld=gold*) echo no gold here >&2; exit 1;; esac\n"
                        f"exec {shutil.which('g++')} \"$@\"\n")
    compiler.chmod(0o755)

    usual = plain("doctor", folder=folder)
    without_gold = plain("doctor", folder=folder, KILN_CXX=str(compiler))

    assert re.search(r"^good  linker: (gold|the compiler's default)", usual.stdout, re.M), usual.stdout
    assert re.search(r"^good  linker: the compiler's default", without_gold.stdout, re.M), without_gold.stdout
    if "linker: gold" in usual.stdout:
        assert "gold does not work" in without_gold.stdout, without_gold.stdout


def test_a_device_or_architecture_that_is_none_is_refused(folder):
    for options, message in [(["--device", "tpu"], "there is no device 'tpu' to compile for: use cpu or cuda"),
                             (["--device", "cuda", "--option", "arch=hopper"], "'hopper' is not a GPU architecture"),
                             (["--device", "cuda", "--option", "arch=sm_999"], "does not know the architecture sm_999"),
                             (["--option", "check_indices=never"], "'check_indices' must be sync or later"),
                             (["--instances", "4097"], "cannot ask for 4097 instances; 4096 is the most")]:
        refused = plain("compile", MODEL, "-o", f"{folder}/out.pt2", *options, folder=folder)

        assert refused.returncode != 0 and message in refused.stderr, refused.stderr
        assert not os.path.exists(f"{folder}/out.pt2")


def test_a_compile_does_not_replace_its_archive(folder):
    archive = pathlib.Path(folder) / "model.pt2"
    shutil.copy(MODEL, archive)
    (archive.parent / "link.pt2").symlink_to(archive)
    for out in ("model.pt2", "link.pt2"):
        refused = plain("compile", archive, "-o", f"{folder}/{out}", folder=folder)
        assert refused.returncode == 1 and "is the archive itself" in refused.stderr, refused.stderr
    assert archive.read_bytes() == pathlib.Path(MODEL).read_bytes()


def test_a_profile_and_cuda_graphs_exclude_each_other(folder):
    assert plain("bench", MODEL, "--profile", "--cuda-graphs", "on", folder=folder).returncode == 2


def test_help_has_examples_and_exit_codes(folder):
    assert "Exit codes:" in plain("--help", folder=folder).stdout
    for command in ["compile", "run", "bench", "inspect", "bisect", "cache", "doctor", "completion"]:
        result = plain(command, "--help", folder=folder)
        assert result.returncode == 0 and f"  kiln {command}" in result.stdout, command


def is_running(process):
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"  # Nobody may have asked yet how it ended.


def test_interrupting_ends_the_compiler_and_leaves_nothing(folder):
    # A compiler that says when it was started and then takes its time.
    started = pathlib.Path(folder) / "started"
    slow = pathlib.Path(folder) / "slow-compiler"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *kernels*) echo $$ > {started}; sleep 60;; esac\nexec g++ "$@"\n')
    slow.chmod(0o755)
    scratch = pathlib.Path(folder) / "scratch"
    scratch.mkdir()
    for sent, by in ((signal.SIGINT, "terminal"), (signal.SIGTERM, "kill")):
        started.unlink(missing_ok=True)
        child, terminal = pty.fork()
        if child == 0:
            for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(each, signal.SIG_DFL)  # Who runs the tests may ignore them.
            command = [KILN, "compile", MODEL, "-o", f"{folder}/out.pt2"]
            os.execve(KILN, command, environment(scratch, KILN_CXX=str(slow)))
        shown = b""
        while not started.exists():
            if select.select([terminal], [], [], 0.01)[0]:
                shown += os.read(terminal, 65536)
        if by == "terminal":
            os.write(terminal, b"\x03")
        else:
            os.kill(child, sent)
        try:
            while part := os.read(terminal, 65536):
                shown += part
        except OSError:
            pass
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code == 128 + sent, (code, shown.decode())
        assert "kiln: interrupted" in shown.decode()
        assert not list(scratch.iterdir()), list(scratch.iterdir())
        assert not os.path.exists(f"{folder}/out.pt2")
        compiler = int(started.read_text())
        deadline = time.time() + 10
        while is_running(compiler) and time.time() < deadline:
            time.sleep(0.01)
        assert not is_running(compiler), "the compiler still runs"


def test_a_signal_that_is_ignored_interrupts_nothing(folder):
    started, go, slow = (pathlib.Path(folder) / name for name in ("started", "go", "slow-compiler"))
    slow.write_text(f'#!/bin/sh\ncase "$*" in *kernels*) touch {started}; '
                    f'while [ ! -e {go} ]; do sleep 0.05; done;; esac\nexec g++ "$@"\n')
    slow.chmod(0o755)
    command = ["nohup", KILN, "compile", MODEL, "-o", f"{folder}/out.pt2"]
    compiling = subprocess.Popen(command, env=environment(folder, KILN_CXX=str(slow)), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not started.exists() and compiling.poll() is None:
        time.sleep(0.01)
    compiling.send_signal(signal.SIGHUP)
    go.touch()
    errors = compiling.communicate()[1]
    assert compiling.returncode == 0, errors
    assert os.path.exists(f"{folder}/out.pt2")


def complete(*words, folder):
    script = plain("completion", "bash", folder=folder).stdout
    line = " ".join(f"'{word}'" for word in words)
    result = subprocess.run(
        ["bash", "-c", f'{script}\nCOMP_WORDS=(kiln {line}); COMP_CWORD={len(words)}; _kiln; echo "${{COMPREPLY[@]}}"'],
        capture_output=True, text=True, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_bash_completes_commands_options_and_files(folder):
    assert complete("comp", folder=folder) == ["compile", "completion"]
    assert complete("inspect", "--h", folder=folder) == ["--help", "--html"]
    assert "stats" in complete("cache", "", folder=folder)
    (pathlib.Path(folder) / "model.pt2").touch()
    assert complete("compile", "mod", folder=folder) == ["model.pt2"]
    for shell in ("zsh", "fish"):
        assert "compile" in plain("completion", shell, folder=folder).stdout


def main():
    failed = 0
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    test(folder)
                    print("passed", name)
                except AssertionError:
                    import traceback

                    traceback.print_exc()
                    print("FAILED", name)
                    failed += 1
    return failed


sys.exit(main())
