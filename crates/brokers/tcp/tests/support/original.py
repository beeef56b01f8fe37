"""The consumer of the original: one connection, no framing, ids of batches.

usage: original.py EVENTS

Prints its port, then a line for each batch: its id, how many events it applied, and how many it has.
Ends when it has so many.
"""

import json
import socket
import sys

wanted = int(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
seen, events = set(), []
while len(events) < wanted:
    message = json.loads(connection.recv(1 << 20))
    is_new = message["id"] not in seen
    if is_new:
        seen.add(message["id"])
        events.extend(message["events"])
    print(message["id"], len(message["events"]) if is_new else 0, len(events), flush=True)
    connection.sendall(json.dumps({"id": message["id"]}).encode())
