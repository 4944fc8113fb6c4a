"""Each release's own encoder and decoder, in a JVM of its own."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote_plus

from spark_jobs.lake import jars
from tests.conformance.matrix import Context, Values

HERE = Path(__file__).parent
_SHARED = ("rocketmq-slf4j-api-*.jar", "commons-validator-*.jar")


@dataclass
class Answer:
    """A body, and what the release's decoder makes of it."""

    body: str
    keys: list[str] = field(default_factory=list)
    threw: str | None = None
    records: list[Values] = field(default_factory=list)  # properties of the context and of its bean


@dataclass
class Release:
    """What one release answered."""

    enums: dict[str, list[str]]
    fresh: Values  # the properties of a TraceContext and a TraceBean that nothing was set in
    bodies: dict[str, Answer]


def compile_encoder(folder: Path) -> Path:
    """Compile the program once, against the oldest release: it names no more than all of them have."""
    jars_of_all = jars.fetch(HERE / "ivy.xml")
    classpath = ":".join(map(str, jars_of_all.glob("*-4.4.0.jar")))
    compiler = [jars.java(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(folder)]
    subprocess.run([*compiler, "-cp", classpath, str(HERE / "Encode.java")], check=True)
    return folder


def ask(
    release: str, classes: Path, folder: Path, contexts: dict[str, list[Context]], wires: dict[str, str]
) -> Release:
    """Let a release encode the contexts and decode what comes of it, and the wires as well."""
    requests, answers = folder / f"{release}.requests", folder / f"{release}.answers"
    requests.write_text("\n".join(_requests(contexts, wires)))
    found = jars.fetch(HERE / "ivy.xml")
    own = [path for pattern in (f"*-{release}.jar", *_SHARED) for path in sorted(found.glob(pattern))]
    command = [
        *(jars.java(), "-Xmx128m", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *(
            f"-Duser.home={folder}",
            "-Djava.net.preferIPv4Stack=true",
            "-cp",
            ":".join(map(str, [classes, *own])),
            "Encode",
        ),
    ]
    done = subprocess.run([*command, str(requests), str(answers)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the client {release} did not answer:\n{done.stderr[-3000:]}")
    return _parsed(answers.read_text())


def _requests(contexts: dict[str, list[Context]], wires: dict[str, str]) -> list[str]:
    lines = []
    for name, body in contexts.items():
        lines.append(f"body\t{quote(name)}")
        for context in body:
            lines.append(_line("context", {"traceType": context.record_type, **context.values}))
            lines += [_line("bean", bean) for bean in context.beans]
    return lines + [f"wire\t{quote(name)}\t{quote(body)}" for name, body in wires.items()]


def _line(kind: str, values: Values) -> str:
    words = [name if value is None else f"{name}={quote(value)}" for name, value in values.items()]
    return "\t".join([kind, *words])


def _parsed(answers: str) -> Release:
    enums: dict[str, list[str]] = {}
    bodies: dict[str, Answer] = {}
    answer = Answer("")
    for line in answers.splitlines():
        kind, *words = line.split("\t")
        match kind:
            case "enum":
                enums[words[0]] = unquote_plus(words[1]).split()
            case "body":
                answer = bodies[unquote_plus(words[0])] = Answer(unquote_plus(words[1]))
            case "keys":
                answer.keys = [unquote_plus(word) for word in words]
            case "threw":
                answer.threw = words[0]
            case "context":
                answer.records.append(_properties(words))
            case "bean":
                answer.records[-1] |= _properties(words)
    (fresh,) = bodies.pop("fresh").records
    return Release(enums, fresh, bodies)


def _properties(words: list[str]) -> Values:
    pairs = [word.partition("=") for word in words]
    return {name: unquote_plus(value) if equals else None for name, equals, value in pairs}
