"""A consumer that shares no code with the adapter.

usage: consumer.py FOLDER PORT

Writes every frame as it came to FOLDER/log, one a line, then acknowledges it.
"""

import json
import os
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


# What a kill cut short was not acknowledged.
log.seek(0)
log.truncate(log.read().rfind(b"\n") + 1)
server = Server(("127.0.0.1", port), Consumer)
print("ready", flush=True)
server.serve_forever()
