"""Write docs/licences.md: every locked Python package and fetched jar with its version and licence; `make licences`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageMetadata, distributions
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from packaging.markers import Marker

from spark_jobs.lake import jars
from spark_jobs.settings import PROJECT

PAGE = PROJECT / "docs" / "licences.md"
LOCK = PROJECT / "requirements.lock"
DASHBOARDS_LOCK = PROJECT / "dashboards" / "requirements.lock"
DASHBOARDS_TITLE = "Python packages of the dashboards"
HEAD = """# Licences of the packages

The project is under the [Apache License 2.0](../LICENSE). It installs the packages below and ships none of them in its
repository; images that are built from `deploy/docker/Dockerfile` contain those of the lock files and the jars. The only file of
another project in the repository is a JSON schema that a test uses, which [NOTICE](../NOTICE) names.
`make official-client` installs `rocketmq-client-python` (Apache-2.0), too. Tests and benchmarks fetch it, and the wheel
`rocketmq` (MIT), into a cache.
`make licences` writes this page from the two lock files, the metadata of the installed packages, and the POM files of the
jars; a test fails when it is out of date.
The package `pyspark` contains the jars of Spark: their licences are in its own `LICENSE` and `NOTICE`.

"""
# Packages whose metadata names no licence, by the repository of their source.
KNOWN = {"openlineage-sql": "Apache-2.0"}
_NAMES = {
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "3-Clause BSD License": "BSD-3-Clause",
}
_SETS = {
    jars.SPARK: "Jars of the Spark jobs",
    jars.LINEAGE: "Jars of lineage",
    jars.S3: "Jars of S3, fetched where the warehouse is there",
    PROJECT / "sandbox" / "ivy.xml": "Jars of the sandbox: demo, tests and benchmarks",
}


class Package(NamedTuple):
    """A row of the page."""

    name: str
    version: str
    licence: str


def locked(lock: Path = LOCK) -> list[tuple[str, str]]:
    """Name and version of each package of a lock that this platform installs."""
    found = re.findall(r"^([\w.-]+)==(\S+)(?: ; (.+?))? *\\?$", lock.read_text(), re.MULTILINE)
    return [(name, version) for name, version, marker in found if not marker or Marker(marker).evaluate()]


def python_packages(lock: Path, environment: Path) -> list[Package]:
    """The packages of a lock; their metadata are in the environment that it is installed into."""
    (site_packages,) = environment.glob("lib/python*/site-packages")
    installed = {_plain(each.name): each.metadata for each in distributions(path=[str(site_packages)])}
    return [Package(name, version, _licence(name, installed)) for name, version in locked(lock)]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _licence(name: str, installed: dict[str, PackageMetadata]) -> str:
    """The licence that the package's metadata names: its expression, else its classifiers, else its text."""
    if name in KNOWN:
        return KNOWN[name]
    about = installed[_plain(name)]
    # Not about["…"]: where the package importlib_metadata is loaded, that raises for a field that is missing.
    if expressions := about.get_all("License-Expression"):
        return expressions[0]
    classifiers = [text for text in about.get_all("Classifier") or [] if text.startswith("License ::")]
    if names := [text.rpartition(" :: ")[2] for text in classifiers]:
        return " / ".join(_NAMES.get(each, each) for each in names if each != "DFSG approved")
    text = (about.get_all("License") or [""])[0].strip().partition("\n")[0]
    if not text:
        raise ValueError(
            f"the metadata of {name} names no licence: look it up and add it to docs/licences.py"
        )
    return _NAMES.get(text, text)


def java_packages(ivy_file: Path) -> list[Package]:
    """The jars of a set, by the modules that Ivy resolved."""
    modules = {}
    for file in (jars.cache_folder() / "ivy").glob("*/*/ivy-*.xml"):
        organisation, module = file.parts[-3:-1]
        modules[f"{module}-{file.stem.removeprefix('ivy-')}"] = (organisation, file)
    found = []
    for jar in jars.jars(ivy_file):
        # An artifact with a classifier, such as natives, has the module's name and version in front.
        key = max((key for key in modules if jar.stem == key or jar.stem.startswith(f"{key}-")), key=len)
        organisation, file = modules[key]
        version = file.stem.removeprefix("ivy-")
        name = f"{organisation}:{file.parent.name}"
        found.append(Package(name, version, " / ".join(_of_module(file)) or "not named in its POM"))
    return sorted(set(found))


def _of_module(file: Path) -> Iterator[str]:
    try:
        info = ElementTree.parse(file).getroot().find("info")
    except ElementTree.ParseError:
        # Ivy copies the properties of a POM without escaping this, which XML does not permit in text.
        info = ElementTree.fromstring(file.read_text().replace("]]>", "]]&gt;")).find("info")
    assert info is not None
    for each in info.findall("license"):
        name = " ".join(each.get("name", "").split()) or each.get("url", "")
        is_apache = re.fullmatch(r"(The )?Apache( Software)?( License)?,?[ v-]*(Version )?2(\.0)?", name)
        yield "Apache-2.0" if is_apache else name


def render() -> str:
    """The page; needs the installed packages and the fetched jars.

    Where the environment of the dashboards is not installed, their section is that of the page.
    """
    sections = [_section("Python packages", python_packages(LOCK, Path(sys.prefix)))]
    environment = PROJECT / ".venv-dashboards"
    if environment.exists():
        sections.append(_section(DASHBOARDS_TITLE, python_packages(DASHBOARDS_LOCK, environment)))
    else:
        sections.append(PAGE.read_text().partition(f"## {DASHBOARDS_TITLE}\n")[2].partition("\n## ")[0])
        sections[-1] = f"## {DASHBOARDS_TITLE}\n{sections[-1]}"
    for ivy, title in _SETS.items():
        jars.fetch(ivy)  # `make setup` fetches those of S3 only where the settings ask for them
        sections.append(_section(title, java_packages(ivy)))
    return HEAD + "\n".join(sections)


def _section(title: str, rows: list[Package]) -> str:
    counted = Counter(row.licence for row in rows).most_common()
    lines = [
        f"## {title}",
        "",
        f"{len(rows)} packages: " + ", ".join(f"{licence} ({count})" for licence, count in counted) + ".",
        "",
        "| package | version | licence |",
        "| --- | --- | --- |",
        *(f"| {row.name} | {row.version} | {row.licence} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"wrote {PAGE.relative_to(PROJECT)}")
