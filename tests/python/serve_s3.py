"""A small object store that speaks as much of S3's protocol as Paceline uses, in memory.

Prints its address, then serves until its standard input closes. Every request must be signed with
version 4 of Amazon's signatures; the check is written from Amazon's documentation and shares no
code with the program. Lists have pages of two names, so that more than one page is read.

    serve_s3.py KEY SECRET REGION
"""

import hashlib
import hmac
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

KEY, SECRET, REGION = sys.argv[1:4]
OBJECTS = {}
PAGE = 2


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Store(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code, message):
        text = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
        self.answer(status, text.encode())

    def body(self):
        if "Transfer-Encoding" in self.headers:
            raise ValueError("S3 needs the length of an object first")
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def is_signed(self, body):
        scheme, _, fields = self.headers.get("Authorization", "").partition(" ")
        fields = dict(field.strip().split("=", 1) for field in fields.split(",") if "=" in field)
        if scheme != "AWS4-HMAC-SHA256" or "Signature" not in fields:
            return False
        key, day, region, service, _ = fields["Credential"].split("/")
        if (key, region, service) != (KEY, REGION, "s3"):
            return False
        if self.headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
            return False
        path, _, query = self.path.partition("?")
        pairs = sorted(pair for pair in query.split("&") if pair)
        names = fields["SignedHeaders"].split(";")
        lines = "".join(f"{name}:{self.headers[name].strip()}\n" for name in names)
        parts = [self.command, path, "&".join(pairs), lines, ";".join(names)]
        canonical = "\n".join(parts + [self.headers["x-amz-content-sha256"]])
        scope = f"{day}/{region}/s3/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, digest])
        derived = sign(f"AWS4{SECRET}".encode(), day)
        for part in (region, "s3", "aws4_request"):
            derived = sign(derived, part)
        return hmac.compare_digest(sign(derived, text).hex(), fields["Signature"])

    def handle_object(self):
        body = self.body()
        path, _, query = self.path.partition("?")
        name = urllib.parse.unquote(path).lstrip("/")
        if not self.is_signed(body):
            return self.refuse(403, "SignatureDoesNotMatch", "the signature does not match")
        if self.command == "PUT":
            OBJECTS[name] = body
            return self.answer(200)
        if self.command == "DELETE":
            OBJECTS.pop(name, None)
            return self.answer(204)
        if "list-type=2" in query:
            return self.list_objects(name, urllib.parse.parse_qs(query))
        if name not in OBJECTS:
            return self.refuse(404, "NoSuchKey", "there is no such object")
        return self.answer(200, OBJECTS[name])

    def list_objects(self, bucket, query):
        prefix = f"{bucket}/{query.get('prefix', [''])[0]}"
        after = query.get("continuation-token", [""])[0]
        names = sorted(name for name in OBJECTS if name.startswith(prefix) and name > after)
        page = names[:PAGE]
        keys = [escape(name[len(bucket) + 1 :]) for name in page]
        text = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
        if len(names) > PAGE:
            text += f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
        self.answer(200, f"<ListBucketResult>{text}</ListBucketResult>".encode())

    do_GET = do_PUT = do_DELETE = handle_object


server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"http://127.0.0.1:{server.server_port}", flush=True)
sys.stdin.read()
