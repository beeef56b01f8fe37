"""Prints what arrives on a subject, as JSON: an independent client of the bare protocol.

listen.py HOST PORT SUBJECT COUNT
"""

import base64
import json
import socket
import sys

host, port, subject, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
connection = socket.create_connection((host, port), timeout=30)
stream = connection.makefile("rb")


def line():
    text = stream.readline()
    if not text.endswith(b"\r\n"):
        sys.exit("the connection ended")
    return text[:-2]


assert line().startswith(b"INFO ")
options = json.dumps({"verbose": False, "pedantic": True, "headers": True, "no_responders": True})
connection.sendall(f"CONNECT {options}\r\nSUB {subject} 1\r\nPING\r\n".encode())
assert line() == b"PONG"
print("ready", flush=True)

while count:
    words = line().split()
    if words[0] == b"PING":
        connection.sendall(b"PONG\r\n")
    if words[0] != b"HMSG":
        continue
    header_size, size = int(words[-2]), int(words[-1])
    body = stream.read(size)
    assert stream.read(2) == b"\r\n"
    lines = body[:header_size].decode("utf-8").split("\r\n")
    assert lines[0] == "NATS/1.0" and lines[-2:] == ["", ""], lines
    headers = [entry.split(": ", 1) for entry in lines[1:-2]]
    assert len({name for name, _ in headers}) == len(headers), "no name comes twice"
    payload = base64.b64encode(body[header_size:]).decode()
    message = {"subject": words[1].decode(), "headers": dict(headers), "payload": payload}
    print(json.dumps(message), flush=True)
    count -= 1
