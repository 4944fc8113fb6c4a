"""Decode the JSON of RocketMQ's brokers and nameservers, which fastjson writes: keys may be numbers, or objects.

A map whose keys are numbers is `{0:5,1:7}`; one whose keys are message queues is
`{{"brokerName":"b","queueId":3,"topic":"t"}:{…}}`. Fields without a value are left out. The text of fastjson2, which
brokers use from 5.x on, is the same.
"""

from __future__ import annotations

import json
import re
from typing import Any

_STRING = r'"(?:[^"\\]|\\.)*"'
# A string is matched first, so that nothing inside it is taken for a key.
_KEY = re.compile(
    rf"""({_STRING})
    | (\{{{_STRING}:(?:{_STRING}|-?\d+)(?:,{_STRING}:(?:{_STRING}|-?\d+))*\}})(?=:)
    | (?<=[{{,])\s*(-?\d+)\s*(?=:)""",
    re.VERBOSE,
)


def loads(body: bytes) -> Any:
    """Decode a body. A key that is a number or an object becomes its text: `"3"`, `'{"brokerName":"b",…}'`.

    Raises:
        ValueError: it is not JSON, or not UTF-8. The text of the error does not contain the body.
    """
    text = body.decode()
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(_KEY.sub(_quoted, text))


def _quoted(found: re.Match[str]) -> str:
    string, queue, number = found.groups()
    if string is not None:
        return str(string)
    return json.dumps(queue) if queue is not None else f'"{number}"'
