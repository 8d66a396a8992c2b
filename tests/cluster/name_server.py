"""NameServer: DNS for the hosts of a network (RFC 1035), addresses of IPv4 alone."""

from __future__ import annotations

import socket
import struct
import threading

_TYPE_A = 1
_CLASS_IN = 1
_HEADER = struct.Struct("!HHHHHH")
_QUESTION = struct.Struct("!HH")
# A response, authoritative, with the question's bit of recursion.
_ANSWERED = 0x8400
_RECURSION = 0x0100
_NO_SUCH_NAME = 3
# An answer that refers to the name in the question, at byte 12, and may be kept
# for no time.
_ANSWER = struct.pack("!HHHIH", 0xC00C, _TYPE_A, _CLASS_IN, 0, 4)


class NameServer:
    """Answers on port 53 of an address. Thread-safe."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._hosts: dict[str, str] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def set(self, name: str, address: str) -> None:
        with self._lock:
            self._hosts[name] = address

    def start(self) -> None:
        self._socket.bind((self._address, 53))
        self._thread.start()

    def stop(self) -> None:
        # An empty query is the end.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", (self._address, 53))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, sender = self._socket.recvfrom(4096)
            if not query:
                return
            self._socket.sendto(self._answer(query), sender)

    def _answer(self, query: bytes) -> bytes:
        number, flags = struct.unpack_from("!HH", query)
        labels = []
        at = _HEADER.size
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]])
            at += 1 + query[at]
        end = at + 1 + _QUESTION.size
        kind = _QUESTION.unpack_from(query, at + 1)[0]
        with self._lock:
            address = self._hosts.get(b".".join(labels).decode("latin-1").lower())
        code = _ANSWERED | flags & _RECURSION | (0 if address else _NO_SUCH_NAME)
        answers = b""
        if address and kind == _TYPE_A:
            answers = _ANSWER + socket.inet_aton(address)
        head = _HEADER.pack(number, code, 1, 1 if answers else 0, 0, 0)
        return head + query[_HEADER.size : end] + answers
