"""A RocketMQ 5.5.0 nameserver and broker on loopback, as child processes, with message trace on.

    with rocketmq(Path("var/sandbox")) as sandbox:
        print(sandbox.namesrv)          # 127.0.0.1:21734

They write only below the folder. A later start on the same folder uses the same data, ports and broker name. They end with this
process, even by SIGKILL.

They listen on loopback only, except for one port: the broker's replication port (`broker port` + 1) binds to every address, and
RocketMQ has no setting for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sandbox import registration
from sandbox.ports import ports_of
from sandbox.releases import NEWEST
from sandbox.server import SandboxError, Server, end_left_over
from spark_jobs.lake import jars
from spark_jobs.process.file_lock import LockedError, locked

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
CLUSTER = "sandbox"
START_SECONDS = 90.0

LOOPBACK = "127.0.0.1"
BROKER_CONF = Path(__file__).with_name("broker.conf")


@dataclass
class Sandbox:
    """A nameserver and a broker; `rocketmq` starts them.

    Attributes:
        folder: contains all their files.
        broker_name: as in the route and in the trace's offsets.
        join: another sandbox's `namesrv`: only a broker, which registers there.
        extra_broker_conf: settings that override `BROKER_CONF`; a change takes effect at the next start.
        java_options: further options of both JVMs.
        host: the address that both bind and register.
        namesrv: the nameserver's "host:port".
        broker_address: the broker's "host:port".
        nameserver: its process; of a sandbox that joins another one it is never started.
        broker: its process.
    """

    folder: Path
    broker_name: str = "broker-a"
    join: str | None = None
    extra_broker_conf: dict[str, str] = field(default_factory=dict)
    java_options: Sequence[str] = ()
    host: str = LOOPBACK

    def __post_init__(self) -> None:
        self._ports = ports_of(self.folder)
        self.namesrv = self.join or f"{self.host}:{self._ports.namesrv}"
        self.broker_address = f"{self.host}:{self._ports.broker}"
        self.nameserver = Server("namesrv", self.folder, self._namesrv_command, lambda: True, START_SECONDS)
        self.broker = Server("broker", self.folder, self._broker_command, self._registered, START_SECONDS)

    @property
    def broker_pid(self) -> int:
        """The broker's process id; raises SandboxError while it is down."""
        return self.broker.pid

    @property
    def namesrv_pid(self) -> int:
        """The nameserver's process id; raises SandboxError while it is down."""
        return self.nameserver.pid

    def start(self) -> None:
        """Start both unless they run, and wait until the broker is in the nameserver's route."""
        if not self.join:
            self.nameserver.start()
        self.broker.start()

    def stop(self) -> None:
        """Stop both with SIGTERM; the broker takes 8 to 14 s."""
        self.broker.stop()
        self.nameserver.stop()

    def kill(self) -> None:
        """Kill both. Messages that the broker has acknowledged are in its files; the next start recovers them."""
        self.broker.kill()
        self.nameserver.kill()

    def _registered(self) -> bool:
        if registration.serves(self.namesrv, TRACE_TOPIC, self.broker_address):
            return True
        registration.register_now(self.broker_address)
        return False

    def _java(self, main: str, conf: Path, *options: str) -> list[str]:
        jars.jars(NEWEST.ivy_file)  # raises with a hint if they were never fetched
        return [
            jars.java(),
            f"-Duser.home={self.folder}",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",  # it would write a file in /tmp
            "-Djava.net.preferIPv4Stack=true",
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            "--add-opens=java.base/java.nio=ALL-UNNAMED",
            "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
            "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
            *options,
            *self.java_options,
            "-cp",
            f"{jars.folder(NEWEST.ivy_file)}/*",
            main,
            "-c",
            str(conf),
        ]

    def _namesrv_command(self) -> list[str]:
        conf = {
            "listenPort": str(self._ports.namesrv),
            "bindAddress": self.host,
            "rocketmqHome": str(self.folder),
            "kvConfigPath": str(self.folder / "namesrv" / "kvConfig.json"),
            "configStorePath": str(self.folder / "namesrv" / "namesrv.properties"),
        }
        file = _write_conf(self.folder / "namesrv.conf", conf)
        return self._java(
            "org.apache.rocketmq.namesrv.NamesrvStartup", file, "-Xmx128m", "-XX:TieredStopAtLevel=1"
        )

    def _broker_command(self) -> list[str]:
        # Written at each start: a running broker rewrites its file when the admin tool changes a setting.
        conf = {
            "brokerName": self.broker_name,
            "brokerClusterName": CLUSTER,
            "namesrvAddr": self.namesrv,
            "listenPort": str(self._ports.broker),
            "storePathRootDir": str(self.folder / "store"),
            "storePathCommitLog": str(self.folder / "store" / "commitlog"),
            **dict.fromkeys(("brokerIP1", "brokerIP2", "bindAddress"), self.host),
            **self.extra_broker_conf,
        }
        file = _write_conf(self.folder / "broker.conf", conf, BROKER_CONF.read_text())
        return self._java(
            "org.apache.rocketmq.broker.BrokerStartup",
            file,
            "-Xmx512m",
            "-XX:MaxDirectMemorySize=512m",
            "-XX:TieredStopAtLevel=1",  # the process is too short-lived for the optimising compiler
            # A broker rejects messages on a disk that is 90 % full, which is common on laptops.
            "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
            "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.98",
        )


@contextmanager
def rocketmq(
    folder: Path,
    *,
    broker_name: str = "broker-a",
    join: str | None = None,
    extra_broker_conf: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
    host: str = LOOPBACK,
    stop_in_order: bool = True,
) -> Iterator[Sandbox]:
    """Run a nameserver and a broker within the block.

    Args:
        folder: contains all their files; created if missing. Data of an earlier start is used.
        broker_name: the broker's name in the route.
        join: another sandbox's `namesrv`: start only a broker, which registers there.
        extra_broker_conf: settings that override `BROKER_CONF`.
        java_options: further options of both JVMs, such as the system properties `tls.*`.
        host: the address that both bind and register.
        stop_in_order: stop them with SIGTERM; killing them saves 8 to 14 s.

    Raises:
        SandboxError: another process uses the folder, or one of the two did not start.
    """
    folder = folder.resolve()
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder / "lock", "sandbox"):
            end_left_over(folder)  # first, as they would still hold the ports
            sandbox = Sandbox(folder, broker_name, join, dict(extra_broker_conf or {}), java_options, host)
            try:
                sandbox.start()
                yield sandbox
            finally:
                if stop_in_order:
                    sandbox.stop()
                else:
                    sandbox.kill()
    except LockedError as error:
        raise SandboxError(
            f"process {error.holder.pid or 'unknown'} already runs a sandbox on {folder}: wait for it, stop it, "
            "or set TRACE_HOME to another folder"
        ) from None


def _write_conf(file: Path, settings: Mapping[str, str], head: str = "") -> Path:
    """Write the settings below `head`. Of a name that occurs twice the last value counts."""
    file.write_text(head + "".join(f"{name}={value}\n" for name, value in settings.items()))
    return file
