"""An S3 server, and what is in its bucket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx

from deploy import child_process

BUCKET = "lake"
REGION = "eu-test-1"
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


@dataclass(frozen=True)
class Store:
    """A running server with an empty bucket.

    Attributes:
        endpoint: its address.
        clock: the file with the difference of its clock.
        key: the access key that it accepts.
        secret: the secret key.
    """

    endpoint: str
    clock: Path
    key: str
    secret: str

    @property
    def client(self) -> Any:
        return _client("s3", self.endpoint, self.key, self.secret)

    def keys(self, prefix: str = "") -> list[str]:
        """The keys of all objects."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def download(self, prefix: str, folder: Path) -> None:
        """Copy all objects below a prefix into a new folder, except the empty ones that pyarrow writes for folders."""
        for key in self.keys(prefix):
            if key.endswith("/"):
                continue
            file = folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(BUCKET, key, str(file))

    @contextmanager
    def trusting(self) -> Iterator[None]:
        """Verify no signature within the block, as this takes moto longer than the requests of a build of the marts."""
        self._verify_after("inf")
        try:
            yield
        finally:
            self._verify_after("0")

    def _verify_after(self, requests: str) -> None:
        httpx.post(f"{self.endpoint}/moto-api/reset-auth", content=requests).raise_for_status()

    def put(self, key: str, content: bytes, age: str) -> None:
        """Store an object that is already of that age, such as "5d"."""
        self.clock.write_text(f"-{age}")
        self.client.put_object(Bucket=BUCKET, Key=key, Body=content)
        self.clock.write_text("+0")


@contextmanager
def moto(folder: Path, host: str) -> Iterator[Store]:
    """Run moto's server. It has one user, and verifies the signature of every request."""
    with socket.create_server((host, 0)) as free:
        port = free.getsockname()[1]
    clock = folder / "clock"
    clock.write_text("+0")
    faketime = {
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    if FAKETIME:
        faketime["LD_PRELOAD"] = str(FAKETIME)
    with (folder / "moto.log").open("w") as log:
        process = child_process.spawn(
            [str(Path(sys.executable).with_name("moto_server")), "-H", host, "-p", str(port)],
            env={
                **os.environ,
                **faketime,
                "MOTO_S3_DEFAULT_KEY_BUFFER_SIZE": "104857600",
                "INITIAL_NO_AUTH_ACTION_COUNT": "4",  # those of `_set_up`
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for_server((host, port), process)
        yield _set_up(f"http://{host}:{port}", clock)
    finally:
        child_process.end(process, grace_seconds=5)


def _client(service: str, endpoint: str, key: str, secret: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )


def _set_up(endpoint: str, clock: Path) -> Store:
    """Create the bucket, and a user who may do anything with it."""
    iam = _client("iam", endpoint, "none", "none")
    iam.create_user(UserName="pipeline")
    allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    iam.put_user_policy(UserName="pipeline", PolicyName="lake", PolicyDocument=policy)
    made = iam.create_access_key(UserName="pipeline")["AccessKey"]
    where = {"LocationConstraint": REGION}
    _client("s3", endpoint, "none", "none").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=where)
    return Store(endpoint, clock, made["AccessKeyId"], made["SecretAccessKey"])


def wait_for_server(address: tuple[str, int], process: subprocess.Popen[bytes]) -> None:
    """Wait until a server accepts connections; raises AssertionError if it does not."""
    give_up = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < give_up:
        with socket.socket() as probe:
            if probe.connect_ex(address) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"the server at {address} did not start: see its log")
