"""The functions of `librocketmq` that the warehouse calls, in the process that `server.py` runs.

The C interface (`CPullConsumer.h`, `CPullResult.h`, `CMessageExt.h` of rocketmq-client-cpp) has no accessor for the length of a
body, body CRC, sysFlag, hosts, flag and the list of the properties. These come from the getters of its C++ class `MQMessageExt`
(`MQMessageExt.h`), which the library exports. Their names and results have the ABI of libstdc++ before C++11, which the builds
of the project rocketmq-client-cpp have. `Library` compares them with known values before it reads anything, and refuses
another build.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from ctypes import POINTER, Structure, c_char, c_char_p, c_int, c_longlong, c_uint64, c_void_p
from typing import Any

from .limits import NO_PLATFORM, OFFICIAL, LibraryError

FOUND, NO_NEW_MESSAGE, NO_MATCHED_MESSAGE, OFFSET_ILLEGAL, FAILED = range(5)
LOG_WARNINGS = 3


class MessageQueue(Structure):
    """`CMessageQueue`."""

    _fields_ = [("topic", c_char * 512), ("broker", c_char * 256), ("queue_id", c_int)]


class PullResult(Structure):
    """`CPullResult`. `status` FAILED also stands for every exception; the reason is in the log only."""

    _fields_ = [
        ("status", c_int),
        ("next_offset", c_longlong),
        ("min_offset", c_longlong),
        ("max_offset", c_longlong),
        ("messages", POINTER(c_void_p)),
        ("size", c_int),
        ("data", c_void_p),
    ]


class SocketAddress(Structure):
    """`sockaddr`, as the two registers in which it is returned."""

    _fields_ = [("low", c_uint64), ("high", c_uint64)]


_STRING_MAP = "St3mapISsSsSt4lessISsESaISt4pairIKSsSsEEE"
_TREE = "_ZNSt8_Rb_treeISsSt4pairIKSsSsESt10_Select1stIS2_ESt4lessISsESaIS2_EE"
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    # name: result, arguments
    "CreatePullConsumer": (c_void_p, c_char_p),
    "SetPullConsumerNameServerAddress": (c_int, c_void_p, c_char_p),
    "SetPullConsumerSessionCredentials": (c_int, c_void_p, c_char_p, c_char_p, c_char_p),
    "SetPullConsumerLogLevel": (c_int, c_void_p, c_int),
    "StartPullConsumer": (c_int, c_void_p),
    "FetchSubscriptionMessageQueues": (
        c_int, c_void_p, c_char_p, POINTER(POINTER(MessageQueue)), POINTER(c_int),
    ),
    "ReleaseSubscriptionMessageQueue": (c_int, POINTER(MessageQueue)),
    "Pull": (PullResult, c_void_p, POINTER(MessageQueue), c_char_p, c_longlong, c_int),
    "ReleasePullResult": (c_int, PullResult),
    "GetLatestErrorMessage": (c_char_p,),
    "CreateMessage": (c_void_p, c_char_p),
    "DestroyMessage": (c_int, c_void_p),
    "SetByteMessageBody": (c_int, c_void_p, c_char_p, c_int),
    "SetMessageProperty": (c_int, c_void_p, c_char_p, c_char_p),
    "GetMessageTopic": (c_char_p, c_void_p),
    "GetMessageQueueId": (c_int, c_void_p),
    "GetMessageQueueOffset": (c_longlong, c_void_p),
    "GetMessageCommitLogOffset": (c_longlong, c_void_p),
    "GetMessageStoreTimestamp": (c_longlong, c_void_p),
    "GetMessageBornTimestamp": (c_longlong, c_void_p),
    "GetMessageStoreSize": (c_int, c_void_p),
    "GetMessageReconsumeTimes": (c_int, c_void_p),
    "GetMessagePreparedTransactionOffset": (c_longlong, c_void_p),
    "_ZNK8rocketmq9MQMessage10getSysFlagEv": (c_int, c_void_p),
    "_ZNK8rocketmq9MQMessage7getFlagEv": (c_int, c_void_p),
    "_ZNK8rocketmq12MQMessageExt10getBodyCRCEv": (c_int, c_void_p),
    "_ZNK8rocketmq12MQMessageExt11getBornHostEv": (SocketAddress, c_void_p),
    "_ZNK8rocketmq12MQMessageExt12getStoreHostEv": (SocketAddress, c_void_p),
    # The first argument of these is where the result goes, if it is returned by value.
    "_ZNK8rocketmq9MQMessage7getBodyEv": (c_void_p, c_void_p, c_void_p),
    "_ZNK8rocketmq9MQMessage13getPropertiesEv": (c_void_p, c_void_p, c_void_p),
    f"_ZN8rocketmq9MQDecoder24messageProperties2StringERK{_STRING_MAP}": (c_void_p, c_void_p, c_void_p),
    f"{_TREE}8_M_eraseEPSt13_Rb_tree_nodeIS2_E": (None, c_void_p, c_void_p),
}  # fmt: skip

_WORD = 8
# A std::map is: comparison 8, header (colour 8, root 8, leftmost 8, rightmost 8), count 8.
_ROOT_IN_MAP = 2 * _WORD
# The text of a std::string before C++11 comes after: length 8, capacity 8, references 8.
_LENGTH_BEFORE_TEXT = 3 * _WORD


class Library:
    """The loaded library.

    Raises:
        LibraryError: the package or its library is missing, lacks a function, or has another interface.
    """

    def __init__(self) -> None:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise LibraryError(NO_PLATFORM)
        try:
            from rocketmq.ffi import dll  # type: ignore[import-not-found]
        except (ImportError, OSError, AttributeError) as error:
            raise LibraryError(
                f"client = {OFFICIAL!r}: the package rocketmq-client-python cannot be imported ({error}): install the extra "
                "`official-client` and librocketmq.so where the package looks for it, on the driver and on every executor"
            ) from None
        self.path = str(dll._name)
        for name, (result, *arguments) in _FUNCTIONS.items():
            try:
                function = getattr(dll, name)
            except AttributeError:
                raise self._refused(f"it lacks the function {name}") from None
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)  # found faster than by `__getattr__` of the library
        self._dll = dll
        self._free_string = ctypes.CDLL("libstdc++.so.6")._ZNSsD1Ev
        self._free_string.restype, self._free_string.argtypes = None, [c_void_p]
        self._get_body = dll._ZNK8rocketmq9MQMessage7getBodyEv
        self._get_properties = dll._ZNK8rocketmq9MQMessage13getPropertiesEv
        self._to_text = getattr(dll, f"_ZN8rocketmq9MQDecoder24messageProperties2StringERK{_STRING_MAP}")
        self._free_tree = getattr(dll, f"{_TREE}8_M_eraseEPSt13_Rb_tree_nodeIS2_E")
        self._result = ctypes.create_string_buffer(512)
        self._at_result = ctypes.addressof(self._result)
        self._string = ctypes.create_string_buffer(64)
        self._at_string = ctypes.addressof(self._string)
        self._compare_with_known_values()

    def __getattr__(self, name: str) -> Any:  # for mypy: the functions are set in `__init__`
        raise AttributeError(name)

    def body(self, message: int) -> bytes:
        """The body; `GetMessageBody` would end it at its first NUL."""
        return _text(self._get_body(message, None))

    def properties(self, message: int) -> bytes:
        r"""The properties as `name \x01 value \x02 name \x01 value …`, sorted by name."""
        self._get_properties(self._at_result, message)
        try:
            self._to_text(self._at_string, self._at_result)
            try:
                return _text(self._at_string)
            finally:
                self._free_string(self._at_string)
        finally:
            self._free_tree(self._at_result, c_void_p.from_address(self._at_result + _ROOT_IN_MAP))

    def _compare_with_known_values(self) -> None:
        """Read a message of our own, whose body contains a NUL."""
        message = self._dll.CreateMessage(b"topic")
        try:
            self._dll.SetByteMessageBody(message, b"a\0b", 3)
            self._dll.SetMessageProperty(message, b"name", b"value")
            # A library that returns the body by value writes it here, and returns where it is.
            if self._get_body(self._at_result, message) == self._at_result:
                raise self._refused("it returns bodies by value")
            if self._get_properties(self._at_result, message) != self._at_result:
                raise self._refused("it returns properties by reference")
            known = self.body(message), b"name\x01value" in self.properties(message)
            if known != (b"a\0b", True):
                raise self._refused(f"a body and a property that were set are read as {known}")
        finally:
            self._dll.DestroyMessage(message)

    def _refused(self, why: str) -> LibraryError:
        return LibraryError(
            f"client = {OFFICIAL!r} cannot use this build of librocketmq: {why} ({self.path}). It knows the interface of "
            "librocketmq 1.2 for rocketmq-client-python, built with the ABI of libstdc++ before C++11"
        )


def _text(string: int) -> bytes:
    """The bytes of a `std::string` of the ABI before C++11, by its address."""
    text = c_void_p.from_address(string).value or 0
    return ctypes.string_at(text, ctypes.c_size_t.from_address(text - _LENGTH_BEFORE_TEXT).value)


def host_of(address: SocketAddress) -> str:
    """The `host:port` of a `sockaddr_in`: family 2, port 2 and address 4 in network order."""
    packed = address.low.to_bytes(_WORD, "little")
    return f"{packed[4]}.{packed[5]}.{packed[6]}.{packed[7]}:{int.from_bytes(packed[2:4], 'big')}"
