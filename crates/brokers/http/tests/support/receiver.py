"""A receiver of webhooks that shares no code with the adapter.

usage: receiver.py FOLDER PORT SECRET [CERTIFICATE KEY]

POST /hook          checks the signature, writes the request to FOLDER/log, answers 204
POST /status/NNN    answers NNN, with a Retry-After of ?after= and a Location of ?to=
POST /once/NNN      as /status the first time a message comes, as /hook then
POST /early/NNN     answers NNN before it reads the body, and closes the connection
POST /close         as /hook, then closes the connection without a word
POST /endless       as /hook, with an answer that never ends, as fast as it can
POST /drip          as /hook, with an answer that never ends, byte by byte
POST /garbage       answers what is not HTTP
POST /hang          never answers
POST /cut           closes the connection instead of answering
HEAD                answers 204, or NNN at /status/NNN

FOLDER/requests has a line for every request that came, and "closed" after /close.
"""

import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import socket
import ssl
import sys
import threading
from urllib.parse import parse_qs, urlparse

http.client._MAXHEADERS = 10_000
folder, port, secret = sys.argv[1], int(sys.argv[2]), sys.argv[3]
key = base64.b64decode(secret.removeprefix("whsec_"))
lock = threading.Lock()
log = open(os.path.join(folder, "log"), "ab")
requests = open(os.path.join(folder, "requests"), "ab", buffering=0)
seen = set()


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        kind, status = (urlparse(self.path).path.split("/") + [""])[1:3]
        self.answer(int(status) if kind == "status" else 204)

    def do_POST(self):
        requests.write(f"{self.command} {self.path}\n".encode())
        kind, status = (urlparse(self.path).path.split("/") + [""])[1:3]
        if kind == "early":
            self.answer(int(status))
            return self.close()
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if kind == "hook":
            self.answer(self.take(body))
        elif kind == "status":
            self.answer(int(status))
        elif kind == "once":
            id = self.headers["webhook-id"]
            is_new = id not in seen
            seen.add(id)
            self.answer(int(status) if is_new else self.take(body))
        elif kind == "close":
            self.answer(self.take(body))
            self.close()
            requests.write(b"closed\n")
        elif kind in ("endless", "drip"):
            self.endless(self.take(body), kind == "drip")
        elif kind == "garbage":
            self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
            self.close()
        elif kind == "hang":
            threading.Event().wait()
        else:
            self.close()

    def take(self, body):
        id, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        mac = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
        wanted = "v1," + base64.b64encode(mac).decode()
        if wanted not in self.headers["webhook-signature"].split(" "):
            return 401
        # Header names are case-insensitive; values are bytes that Python shows as Latin-1.
        headers = [[name, value] for name, value in self.headers.items()]
        entry = {"headers": headers, "body": base64.b64encode(body).decode()}
        with lock:
            log.write(json.dumps(entry).encode() + b"\n")
            log.flush()
        return 204

    def answer(self, status):
        query = parse_qs(urlparse(self.path).query)
        self.send_response(status)
        for name, header in ("after", "Retry-After"), ("to", "Location"):
            if name in query:
                self.send_header(header, query[name][0])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def endless(self, status, is_slow):
        self.send_response(200 if status == 204 else status)
        self.send_header("Content-Length", "1000000000000")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" if is_slow else b"x" * 65536)
                if is_slow:
                    threading.Event().wait(0.05)
        except OSError:
            self.close_connection = True

    def close(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", port), Receiver)
if len(sys.argv) > 4:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[4], sys.argv[5])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
