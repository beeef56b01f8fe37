"""A consumer that shares no code with the adapter.

usage: consumer.py FOLDER PORT

Writes every frame as it came to FOLDER/log, one a line, then acknowledges it.
"""

import errno
import json
import os
import random
import socketserver
import sys
import threading

folder, port = sys.argv[1], int(sys.argv[2])
lock = threading.Lock()
log = open(os.path.join(folder, "log"), "ab+")


class Consumer(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        while (line := self.rfile.readline()).endswith(b"\n"):
            frame = json.loads(line)
            with lock:
                log.write(line)
                log.flush()
            ack = {"batch": frame["batch"], "position": frame["events"][-1]["seq"]}
            self.wfile.write(json.dumps(ack).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        pass


def listen():
    """Outside the range from which systems take ports: nobody has ours while we are stopped."""
    while True:
        try:
            return Server(("127.0.0.1", port or random.randrange(20_000, 32_000)), Consumer)
        except OSError as error:
            if port or error.errno != errno.EADDRINUSE:
                raise


# What a kill cut short was not acknowledged.
log.seek(0)
log.truncate(log.read().rfind(b"\n") + 1)
server = listen()
print(f"ready {server.server_address[1]}", flush=True)
server.serve_forever()
