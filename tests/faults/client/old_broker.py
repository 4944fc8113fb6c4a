"""A broker of an older release, 4.9.7 with the ACL of 4.x unless another is asked for; it registers at a nameserver of 5.5.0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox import registration
from sandbox.broker import TRACE_TOPIC
from sandbox.ports import ports_of
from sandbox.server import Server
from spark_jobs.lake import jars

JARS = Path(__file__).parent / "broker_4_9" / "ivy.xml"
BROKER = "broker-old"


@contextmanager
def broker_4_9(
    folder: Path, namesrv: str, plain_acl: str | None, ivy_file: Path = JARS, name: str = BROKER
) -> Iterator[str]:
    """Run it while the block lasts; yields its address.

    It listens on every address: 4.x has no setting for that.

    Args:
        folder: its home, empty.
        namesrv: where it registers.
        plain_acl: the text of its plain_acl.yml; None for a broker without ACL.
        ivy_file: the jars of its release.
        name: of the broker.
    """
    try:
        classes = jars.fetch(ivy_file)
    except SystemExit as error:
        pytest.skip(f"NO TEST OF {ivy_file.parent.name}: {error}")
    for each in ("conf", "tmp"):
        (folder / each).mkdir()
    (folder / "conf" / "plain_acl.yml").write_text(plain_acl or "")
    (folder / "conf" / "logback_broker.xml").write_text("<configuration/>")  # without it, it does not start
    port = ports_of(folder).broker
    address = f"127.0.0.1:{port}"
    conf = {
        "aclEnable": str(plain_acl is not None).lower(),
        "brokerName": name,
        "brokerClusterName": "old",
        "brokerIP1": "127.0.0.1",
        "namesrvAddr": namesrv,
        "listenPort": str(port),
        "traceTopicEnable": "true",
        "autoCreateTopicEnable": "false",  # else other tests' topics would be made here, too
        "storePathRootDir": str(folder / "store"),
        "storePathCommitLog": str(folder / "store" / "commitlog"),
        "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
        "brokerFastFailureEnable": "false",
        "diskMaxUsedSpaceRatio": "95",
    }
    (folder / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
    command = [
        *(jars.java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        "-XX:MaxDirectMemorySize=256m",
        *(f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder / 'tmp'}", "-Djava.net.preferIPv4Stack=true"),
        *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"),
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
        "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
        "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.98",
        *("-cp", f"{classes}/*", "org.apache.rocketmq.broker.BrokerStartup"),
        *("-c", str(folder / "broker.conf")),
    ]
    server = Server(
        "broker", folder, lambda: command, lambda: registration.serves(namesrv, TRACE_TOPIC, address), 60
    )
    try:
        server.start()
        yield address
    finally:
        server.kill()
