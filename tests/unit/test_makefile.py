"""Values of a target's variables reach its program unchanged: neither make nor the shell expands them.

The real make runs the real recipes, in a folder whose programs write down how they were called. Targets and variables
are read from the Makefile, so that a new one is tried as well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_jobs.settings import PROJECT
from tests.__main__ import command, without_makes

MAKEFILE = (PROJECT / "Makefile").read_text()
VARIABLES = set(re.findall(r"^export (\w+) \?=", MAKEFILE, re.MULTILINE))
# What no user gives: `override` keeps a command line from changing them.
CONSTANTS = set(re.findall(r"^override (?:export )?(\w+) :=", MAKEFILE, re.MULTILINE))
HOSTILE = {
    "dollar": "order$42",
    "dollars": "$$42 $HOME ${HOME} $(HOME)",
    "make function": "$(shell touch ran)$(error no)",
    "backticks": "`touch ran`",
    "substitution": "$(touch ran)",
    "double quotes": 'a"; touch ran; echo "b',
    "single quotes": "a'; touch ran; echo 'b",
    "spaces": "two words  and * ?",
    "operators": "a; touch ran & touch ran | touch ran > ran",
    "backslash": "a\\ \\\\ \\n b\\",
    "newline": "one\ntouch ran\n\ttouch ran",
    "comment": "a # b := c",
    "unicode": "Bestellung-ä-订单-🛒",
    "option": "--help",
}
HOSTILE["all"] = "\n".join(HOSTILE.values())
# Their values choose an option and are shown to no program.
FLAGS = {"DRY_RUN": "--dry-run", "YES": "--yes", "RAW": "--records", "DASHBOARDS": "--dashboards"}
FAKE = """#!/bin/bash
{{ printf '%s\\0' "$0" "$@"; printf '\\1'; env -0; printf '\\2'; }} >> {log}
[ "$*" != -version ] || echo 'openjdk version "17.0.1"' >&2
"""


def recipes() -> dict[str, str]:
    """The recipe of each target."""
    found: dict[str, str] = {}
    targets: list[str] = []
    for line in MAKEFILE.splitlines():
        if line.startswith("\t"):
            for target in targets:
                found[target] = f"{found.get(target, '')}{line}\n"
        elif (rule := re.match(r"([a-z./ -]+):(?!=)", line)) and not line.startswith("."):
            targets = rule[1].split()
        elif line.startswith(".venv/installed:"):
            targets = [".venv/installed"]
    return found


RECIPES = recipes()
TAKEN = {
    target: taken
    for target, recipe in RECIPES.items()
    if (taken := VARIABLES & set(re.findall(r"\$\$\{?(\w+)", recipe)))
}
OF_USERS = set(TAKEN) - {"need-python", ".venv/installed"}


@dataclass(frozen=True)
class Call:
    """A program that make called."""

    argv: list[str]
    environment: dict[str, str]


@dataclass(frozen=True)
class Checkout:
    """A folder with the project's Makefile."""

    folder: Path

    def make(
        self, *arguments: str, **environment: str
    ) -> tuple[subprocess.CompletedProcess[str], list[Call]]:
        """Run make; returns also the calls of programs."""
        log = self.folder / "calls"
        log.write_text("")
        done = subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env={
                "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "HOME": "/nonexistent",
                "JAVA_HOME": str(self.folder / "jdk"),
                **environment,
            },
            capture_output=True,
            text=True,
        )
        assert not (self.folder / "ran").exists(), f"a value was run: {arguments} {environment}"
        return done, [_call(text) for text in log.read_text().split("\2")[:-1]]


def _call(text: str) -> Call:
    argv, environment = (part.split("\0")[:-1] for part in text.split("\1"))
    return Call(argv, dict(each.split("=", 1) for each in environment))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("Makefile", "requirements.lock", "dashboards/requirements.lock"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(PROJECT / name, folder / name)
    fake = FAKE.format(log=folder / "calls")
    names = [".venv/bin/python", ".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/sqlfluff"]
    for name in (*names, "bin/uv", "bin/python3.11", "jdk/bin/java"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(fake)
        file.chmod(0o755)
    for environment in (".venv", ".venv-dashboards"):
        (folder / environment).mkdir(exist_ok=True)
        (folder / environment / "installed").touch()
    return Checkout(folder)


def test_the_makefile_was_read():
    assert {"erase", "reextract", "test", "soak", "need-python"} <= set(TAKEN)
    assert {"KEY", "TESTS", "PYTHON", "TRACE_HOME", "YES"} <= VARIABLES
    assert {"RUN", "SHELL", "UV_VERSION"} <= CONSTANTS | {"SHELL"}


def test_recipes_take_nothing_from_make_but_constants():
    for target, recipe in RECIPES.items():
        for name in re.findall(r"(?<!\$)\$[({](?:if \$\()?([\w.]+)", recipe):
            assert name in CONSTANTS, f"{target}: $({name}) becomes shell text: write $${name}"


def test_every_variable_is_taken_by_a_target():
    assert set().union(*TAKEN.values()) | {"TRACE_HOME"} == VARIABLES


@pytest.mark.parametrize("place", ["command line", "environment"])
@pytest.mark.parametrize(
    ("target", "what"),
    [("erase", what) for what in HOSTILE]
    + [(target, what) for target in sorted(OF_USERS) for what in ("all", "double quotes", "single quotes")],
)
def test_a_value_is_not_expanded(checkout: Checkout, target: str, what: str, place: str):
    value = HOSTILE[what]
    names = (TAKEN[target] | {"TRACE_HOME"}) - {"PYTHON"}
    given = dict.fromkeys(names, value)
    # Not a variable of the Makefile; make exports it nevertheless.
    given["ANY_OTHER"] = value
    if place == "command line":
        done, calls = checkout.make(target, *(f"{name}={text}" for name, text in given.items()))
    else:
        done, calls = checkout.make(target, **given)
    assert done.returncode == 0, done.stderr
    program = calls[-1]
    for name in names - set(FLAGS):
        assert program.environment[name] == value, name
    before, _, after = RECIPES[target].partition("$(RUN)")
    for name in re.findall(r'(\w+)="\$\$\w+"', before):
        assert program.environment[name] == value, name
    arguments = set(re.findall(r'"\$\$(\w+)"', after)) - set(FLAGS)
    found = [each for each in program.argv[2:] if value in (each, each.partition("=")[2])]
    assert len(found) == len(arguments), program.argv
    for name in names & set(FLAGS):
        assert (FLAGS[name] in program.argv) == (name != "YES"), "only YES=1 is a yes"


@pytest.mark.parametrize(
    "value", [HOSTILE["all"][:200], *(HOSTILE[q] for q in ("double quotes", "single quotes"))]
)
def test_the_value_of_python_is_not_expanded(checkout: Checkout, value: str):
    """For the set-up, which makes the environment with it."""
    python = checkout.folder / "pythons" / value.replace("/", "_")
    python.parent.mkdir(exist_ok=True)
    shutil.copy(checkout.folder / "bin" / "uv", python)
    (checkout.folder / ".venv" / "installed").unlink()
    fake = checkout.folder / ".venv" / "bin" / "python"
    hidden = fake.rename(checkout.folder / "python")
    try:
        done, calls = checkout.make(".venv/installed", f"PYTHON={python}")
    finally:
        hidden.rename(fake)
    assert done.returncode == 0, done.stderr
    venv = next(call for call in calls if "venv" in call.argv)
    assert venv.argv[venv.argv.index("--python") + 1] == str(python)
    done, _ = checkout.make("setup", f"PYTHON={value}")
    assert done.returncode != 0
    assert "Python 3.11 is missing" in done.stderr


@pytest.mark.parametrize("target", ["status", "down"])
def test_status_and_down_set_nothing_up(checkout: Checkout, target: str):
    (checkout.folder / ".venv" / "installed").unlink()
    done, calls = checkout.make(target)
    assert done.returncode == 0, done.stderr
    assert [call.argv[2:] for call in calls] == [["deploy.up", target]]
    (checkout.folder / ".venv" / "bin" / "python").rename(checkout.folder / "hidden")
    try:
        done, calls = checkout.make(target)
    finally:
        (checkout.folder / "hidden").rename(checkout.folder / ".venv" / "bin" / "python")
        (checkout.folder / ".venv" / "installed").touch()
    assert (done.returncode, calls) == (2, [])
    assert "this checkout is not set up yet (make setup)" in done.stderr


def called(checkout: Checkout, *arguments: str, **environment: str) -> list[str]:
    done, calls = checkout.make(*arguments, **environment)
    assert done.returncode == 0, done.stderr
    return calls[-1].argv[2:]


def test_options_appear_where_they_are_given(checkout: Checkout):
    assert called(checkout, "erase", "KEY=order$42") == [
        "spark_jobs.jobs.erase",
        "--cluster=default",
        "--key=order$42",
    ]
    assert called(checkout, "erase", "KEY=k", "YES=1", "CLUSTER=prod") == [
        *("spark_jobs.jobs.erase", "--cluster=prod", "--key=k", "--yes")
    ]
    for no in ("", "0", "no"):
        assert "--yes" not in called(checkout, "erase", "KEY=k", f"YES={no}")
    assert called(checkout, "maintain") == ["spark_jobs.jobs.maintain"]
    assert called(checkout, "maintain", "DRY_RUN=") == ["spark_jobs.jobs.maintain"]
    assert called(checkout, "maintain", "DRY_RUN=1") == ["spark_jobs.jobs.maintain", "--dry-run"]
    assert called(checkout, "maintain", DRY_RUN="1") == ["spark_jobs.jobs.maintain", "--dry-run"]
    asked = ["spark_jobs.jobs.reextract", "--from=a", "--to=b"]
    assert called(checkout, "reextract", "FROM=a", "TO=b") == asked
    assert called(checkout, "reextract", "FROM=a", "TO=b", "CLUSTER=prod") == [*asked, "--cluster=prod"]
    assert called(checkout, "reextract", "FROM=a", "TO=b", CLUSTER="prod") == [*asked, "--cluster=prod"]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("replay", "FROM="),
        ("ingest-reset", "QUEUE="),
        ("ingest-retire", "QUEUE="),
        ("backup", "TO="),
        ("restore", "FROM="),
        ("move", "TO="),
    ],
)
def test_a_missing_argument_is_an_error(checkout: Checkout, target: str, says: str):
    done, _ = checkout.make(target)
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.parametrize("name", sorted(CONSTANTS | {"SHELL", ".SHELLFLAGS", "MAKEFILE_LIST", "MAKEFILES"}))
@pytest.mark.parametrize("target", ["help", "test"])
def test_other_variables_run_nothing(checkout: Checkout, target: str, name: str):
    if name != "MAKEFILES":  # that one names files to read
        checkout.make(target, f"{name}=touch ran; $(shell touch ran)`touch ran`#")


def test_the_value_of_tests_is_split_into_words():
    given = "tests/spark -k 'glued or torn' \"a b\" $HOME `touch ran` $(touch ran) *; touch ran"
    words = ["tests/spark", "-k", "glued or torn", "a b", "$HOME", "`touch", "ran`", "$(touch", "ran)"]
    assert command(given, "-n", "2")[1:] == ["-m", "pytest", "-n", "2", *words, "*;", "touch", "ran"]
    with pytest.raises(SystemExit, match="No closing quotation"):
        command("-k 'a")


def test_tests_do_not_see_what_make_exports():
    makefile = "export CLUSTER ?= default\nexport TRACE_HOME ?= var\noverride export PYTHONPATH := here\n"
    given = {"CLUSTER": "default", "TRACE_HOME": "there", "PYTHONPATH": "here", "MAKELEVEL": "1", "LANG": "C"}
    assert without_makes(given, makefile) == {"TRACE_HOME": "there", "PYTHONPATH": "here", "LANG": "C"}
