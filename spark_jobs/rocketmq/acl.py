"""Sign requests for the ACL of 4.x (plain_acl.yml) and of 5.x (users and policies), which use the same signature.

The signature is `base64(HMAC-SHA1(secret key, content))`. The content is the values of all header fields, sorted by name,
then the body (`AclUtils.combineRequestContent` of Apache RocketMQ). The fields AccessKey and SecurityToken are
included, Signature is not.
"""

from __future__ import annotations

import base64
import hmac
import os
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a user of a cluster's ACL. `repr` does not show the secret key and the token."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    @classmethod
    def from_env(cls, prefix: str) -> Self:
        """Read `<prefix>_ACCESS_KEY`, `<prefix>_SECRET_KEY` and, if set, `<prefix>_SECURITY_TOKEN`.

        Raises:
            ValueError: one of the first two is not set.
        """
        names = f"{prefix}_ACCESS_KEY", f"{prefix}_SECRET_KEY"
        if missing := [name for name in names if not os.environ.get(name)]:
            raise ValueError(
                f"set {' and '.join(missing)} in the environment of the driver and of every executor "
                f"(the credentials' prefix is {prefix!r})"
            )
        access_key, secret_key = (os.environ[name] for name in names)
        return cls(access_key, secret_key, os.environ.get(f"{prefix}_SECURITY_TOKEN") or None)


def sign(credentials: Credentials, fields: dict[str, str], body: bytes = b"") -> dict[str, str]:
    """The header fields with AccessKey, SecurityToken (if there is one) and Signature added."""
    signed = {**fields, "AccessKey": credentials.access_key}
    if credentials.security_token is not None:
        signed["SecurityToken"] = credentials.security_token
    content = "".join(signed[name] for name in sorted(signed)).encode() + body
    digest = hmac.digest(credentials.secret_key.encode(), content, "sha1")
    signed["Signature"] = base64.b64encode(digest).decode()
    return signed
