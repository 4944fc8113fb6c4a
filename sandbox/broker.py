"""A RocketMQ 5.5.0 nameserver and broker on loopback, as child processes, with message trace on.

    with rocketmq(Path("var/sandbox")) as sandbox:
        print(sandbox.namesrv)          # 127.0.0.1:21734

They write only below the folder. A later start on the same folder uses the same data, ports and broker name. They end with this
process, even by SIGKILL.

They listen on loopback only, except for one port: the broker's replication port (`broker port` + 1) binds to every address, and
RocketMQ has no setting for it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sandbox import registration
from sandbox.ports import Ports, ports_of
from sandbox.releases import NEWEST
from sandbox.server import SandboxError, Server, end_left_over
from spark_jobs.lake import jars

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
CLUSTER = "sandbox"
START_SECONDS = 90.0

BROKER_CONF = Path(__file__).with_name("broker.conf")


class Sandbox:
    """A running nameserver and broker; `rocketmq` creates it.

    Attributes:
        folder: contains all their files.
        namesrv: the nameserver's "127.0.0.1:port".
        broker_address: the broker's "127.0.0.1:port".
        broker_name: as in the route and in the trace's offsets.
        cluster_name: the cluster's name in the route.
        extra_broker_conf: settings that override `BROKER_CONF`; a change takes effect at the next start.
    """

    def __init__(
        self,
        folder: Path,
        ports: Ports,
        *,
        broker_name: str,
        cluster_name: str,
        join: str | None,
        extra_broker_conf: Mapping[str, str],
        java_options: Sequence[str],
        broker_heap: str,
        timeout: float,
    ):
        self.folder = folder
        self.namesrv = join or f"127.0.0.1:{ports.namesrv}"
        self.broker_address = f"127.0.0.1:{ports.broker}"
        self.broker_name = broker_name
        self.cluster_name = cluster_name
        self.extra_broker_conf = dict(extra_broker_conf)
        self._java_options = java_options
        self._ports = ports
        self._broker_heap = broker_heap
        self._namesrv = (
            None if join else Server("namesrv", folder, self._namesrv_command, lambda: True, timeout)
        )
        self._broker = Server("broker", folder, self._broker_command, self._registered, timeout)

    @property
    def broker_pid(self) -> int:
        """The broker's process id; raises SandboxError while it is down."""
        return self._broker.pid

    @property
    def namesrv_pid(self) -> int:
        """The nameserver's process id; raises SandboxError while it is down."""
        if self._namesrv is None:
            raise SandboxError(f"the nameserver {self.namesrv} belongs to another sandbox")
        return self._namesrv.pid

    def start(self) -> None:
        """Start both unless they run, and wait until the broker is in the nameserver's route."""
        for server in (self._namesrv, self._broker):
            if server is not None and not server.running:
                server.launch()
                server.wait_until_ready()

    def stop(self) -> None:
        """Stop both with SIGTERM; the broker takes 8 to 14 s."""
        self._broker.stop()
        if self._namesrv is not None:
            self._namesrv.stop()

    def kill(self) -> None:
        """Kill both. Messages that the broker has acknowledged are in its files; the next start recovers them."""
        self._broker.kill()
        if self._namesrv is not None:
            self._namesrv.kill()

    def start_broker(self) -> None:
        """Start the broker again on the same port and store; return when it is reachable."""
        self._broker.launch()
        self._broker.wait_until_ready()

    def stop_broker(self) -> None:
        """SIGTERM: the broker flushes and leaves the nameserver's route."""
        self._broker.stop()

    def kill_broker(self) -> None:
        """SIGKILL: the broker stays in the route until the nameserver sees its connection break."""
        self._broker.kill()

    def start_namesrv(self) -> None:
        """Start the nameserver, again or without a broker."""
        if self._namesrv is not None:
            self._namesrv.launch()
            self._namesrv.wait_until_ready()

    def stop_namesrv(self) -> None:
        """Stop the nameserver with SIGTERM; brokers and clients continue without it for a while."""
        if self._namesrv is not None:
            self._namesrv.stop()

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
            *self._java_options,
            "-cp",
            f"{jars.folder(NEWEST.ivy_file)}/*",
            main,
            "-c",
            str(conf),
        ]

    def _namesrv_command(self) -> list[str]:
        conf = {
            "listenPort": str(self._ports.namesrv),
            "bindAddress": "127.0.0.1",
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
            "brokerClusterName": self.cluster_name,
            "namesrvAddr": self.namesrv,
            "listenPort": str(self._ports.broker),
            "storePathRootDir": str(self.folder / "store"),
            "storePathCommitLog": str(self.folder / "store" / "commitlog"),
            **self.extra_broker_conf,
        }
        file = _write_conf(self.folder / "broker.conf", conf, BROKER_CONF.read_text())
        return self._java(
            "org.apache.rocketmq.broker.BrokerStartup",
            file,
            f"-Xmx{self._broker_heap}",
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
    cluster_name: str = CLUSTER,
    join: str | None = None,
    extra_broker_conf: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
    broker_heap: str = "512m",
    timeout: float = START_SECONDS,
    stop_in_order: bool = True,
) -> Iterator[Sandbox]:
    """Run a nameserver and a broker within the block.

    Args:
        folder: contains all their files; created if missing. Data of an earlier start is used.
        broker_name: the broker's name in the route.
        cluster_name: the cluster's name in the route.
        join: another sandbox's `namesrv`: start only a broker, which registers there.
        extra_broker_conf: settings that override `BROKER_CONF`.
        java_options: further options of both JVMs, such as the system properties `tls.*`.
        broker_heap: the broker's `-Xmx`.
        timeout: start timeout of each of the two, seconds.
        stop_in_order: stop them with SIGTERM; killing them saves 8 to 14 s.

    Raises:
        SandboxError: another process uses the folder, or one of the two did not start.
    """
    folder = folder.resolve()
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        for left_over in folder.glob("*.pid"):  # first, as they would still hold the ports
            end_left_over(left_over, folder)
        sandbox = Sandbox(
            folder,
            ports_of(folder),
            broker_name=broker_name,
            cluster_name=cluster_name,
            join=join,
            extra_broker_conf=extra_broker_conf or {},
            java_options=java_options,
            broker_heap=broker_heap,
            timeout=timeout,
        )
        try:
            sandbox.start()
            yield sandbox
        finally:
            if stop_in_order:
                sandbox.stop()
            else:
                sandbox.kill()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            raise SandboxError(
                f"process {owner} already runs a sandbox on {folder}: wait for it, stop it, "
                "or set TRACE_HOME to another folder"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _write_conf(file: Path, settings: Mapping[str, str], head: str = "") -> Path:
    """Write the settings below `head`. Of a name that occurs twice the last value counts."""
    file.write_text(head + "".join(f"{name}={value}\n" for name, value in settings.items()))
    return file
