# SPDX-License-Identifier: Apache-2.0
"""An HTTP service that knows nothing of idempotency, in a process of its own: each request that it
takes has an effect, a line in a file that outlives the process. It misbehaves as each request says.

    upstream_worker.py PORT FOLDER

What it does is a plan: the header `X-Do`, else `do=` in the query, else the first line of
FOLDER/plan.KEY, else of FOLDER/plan, else "ok". A plan is steps with `|` between them: the request number n of a key gets
step n, and the last one all that follow. A step is words with `,` between them:

    ok                  nothing special
    status=N            the answer's status (201)
    before=S after=S    seconds before the effect, and between the effect and the answer
    hold_before=NAME hold=NAME
                        the same, until the file FOLDER/NAME exists
    no_effect           answers without having done anything
    drop                takes the request, does nothing, closes
    early               closes when it has read the header, and does nothing
    close reset         has the effect, then closes, or resets, without an answer
    never               has the effect, then says nothing until the other side closes
    half half_head half_chunk
                        has the effect, then closes inside of the body, the header, a chunk
    big=BYTES           a body of so many bytes
    slow=S              the body in eight pieces, S seconds before each
    chunked gzip        how the body is sent
    old                 HTTP/1.0: the end of the connection is the end of the body
    bye                 closes behind the answer without having said so
    empty               no body at all
    header=NAME:VALUE   a header of the answer
    junk                bytes that are no HTTP

The answer is JSON: what came in, and how many effects this key has had. POST /v1/charges is answered
as Stripe would: 200 and a charge, or with status=402 and the like an error.
"""
import asyncio
import collections
import gzip
import hashlib
import json
import os
import signal
import socket
import struct
import sys
import urllib.parse
from pathlib import Path

HOST = "127.0.0.1"
HEAD_MAX = 1 << 20
POLL_S = 0.005


class Gone(Exception):
    """The connection is not to be used any more."""


class Request:
    def __init__(self, method, target, headers):
        self.method, self.target, self.headers, self.body = method, target, headers, b""

    def get(self, name):
        return next((v for k, v in self.headers if k.lower() == name), None)

    @property
    def key(self):
        """As it was sent, without the quotes of a structured string."""
        return (self.get("idempotency-key") or "").strip('"')

    @property
    def is_charge(self):
        return self.target.startswith("/v1/charges")


class Book:
    """Lines in a file: one write each, so that a kill loses none and tears none."""

    def __init__(self, path):
        self.counts = collections.Counter(path.read_text().splitlines() if path.exists() else [])
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, key):
        os.write(self.file, key.encode() + b"\n")
        self.counts[key] += 1
        return self.counts[key]


class Step:
    def __init__(self, text):
        self.words = {}
        self.headers = []
        for word in filter(None, (w.strip() for w in text.split(","))):
            name, _, value = word.partition("=")
            if name == "header":
                self.headers.append(tuple(value.split(":", 1)))
            else:
                self.words[name] = value

    def has(self, name):
        return name in self.words

    def number(self, name, default=0.0):
        return float(self.words.get(name, default))


class Upstream:
    def __init__(self, folder):
        self.folder = folder
        self.effects = Book(folder / "effects")
        self.requests = Book(folder / "requests")

    # ---- Reading ----

    async def read_head(self, reader):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return None
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ")
        headers = [tuple(line.split(": ", 1)) for line in lines[1:] if line]
        return Request(method, target, [(h[0], h[1] if len(h) > 1 else "") for h in headers])

    async def read_body(self, request, reader):
        if (request.get("transfer-encoding") or "").lower() == "chunked":
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                request.body += (await reader.readexactly(size + 2))[:-2]
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
        else:
            request.body = await reader.readexactly(int(request.get("content-length") or 0))

    def step_of(self, request, count):
        query = urllib.parse.urlsplit(request.target).query
        plan = request.get("x-do") or dict(urllib.parse.parse_qsl(query)).get("do")
        for name in (f"plan.{request.key[:200]}", "plan"):  # the longest names of files are 255
            path = self.folder / name
            if plan is None and "/" not in name and path.exists():
                plan = path.read_text().split("\n")[0]
        plan = plan or "ok"
        steps = plan.split("|")
        return Step(steps[min(count, len(steps)) - 1])

    # ---- Doing ----

    async def pause(self, step, seconds, name):
        await asyncio.sleep(step.number(seconds))
        while step.has(name) and not (self.folder / step.words[name]).exists():
            await asyncio.sleep(POLL_S)

    async def act(self, request, step):
        """The effect, if there is to be one, and the answer's body."""
        await self.pause(step, "before", "hold_before")
        effects = self.effects.counts[request.key]
        if not step.has("no_effect") and not step.has("drop"):
            effects = self.effects.add(request.key)
        await self.pause(step, "after", "hold")
        if step.has("big"):
            return b"x" * int(step.words["big"])
        if step.has("empty"):
            return b""
        if request.is_charge:
            return json.dumps(self.charge(request, step, effects)).encode()
        return json.dumps({
            "key": request.key, "effects": effects, "requests": self.requests.counts[request.key],
            "method": request.method, "target": request.target, "size": len(request.body),
            "sha256": hashlib.sha256(request.body).hexdigest(),
            "fence": request.get("once-fence"), "attempt": request.get("once-attempt"),
            "headers": request.headers}).encode() + b"\n"

    def charge(self, request, step, effects):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        if step.number("status", 200) >= 400:
            return {"error": {"type": "card_error", "code": "card_declined",
                              "message": f"Your card was declined, {effects}."}}
        return {"id": f"ch_{sum(self.effects.counts.values())}", "object": "charge",
                "amount": int(form.get("amount", 0)), "currency": form.get("currency"),
                "status": "succeeded", "livemode": False,
                "metadata": {"effects": effects, "attempt": request.get("once-attempt")}}

    # ---- Answering ----

    def head_of(self, request, step, body):
        status = int(step.number("status", 200 if request.is_charge else 201))
        lines = [f"HTTP/{'1.0' if step.has('old') else '1.1'} {status} Said",
                 "Content-Type: application/json", "X-Upstream: yes"]
        lines += [f"{name}: {value}" for name, value in step.headers]
        if step.has("gzip"):
            lines.append("Content-Encoding: gzip")
        if step.has("chunked") or step.has("half_chunk"):
            lines.append("Transfer-Encoding: chunked")
        elif not step.has("old") and status not in (204, 304):
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    async def send_body(self, step, body, writer):
        pieces = 8 if step.has("slow") or step.has("chunked") else 1
        size = max(1, -(-len(body) // pieces))
        for at in range(0, len(body), size):
            piece = body[at:at + size]
            if step.has("slow"):
                await asyncio.sleep(step.number("slow"))
            if step.has("chunked"):
                piece = b"%x\r\n%s\r\n" % (len(piece), piece)
            writer.write(piece)
            await writer.drain()
        if step.has("chunked"):
            writer.write(b"0\r\n\r\n")

    async def answer(self, request, step, body, reader, writer):
        if step.has("drop") or step.has("close"):
            raise Gone
        if step.has("reset"):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                                       struct.pack("ii", 1, 0))
            raise Gone
        if step.has("never"):
            while await reader.read(65536):
                pass
            raise Gone
        if step.has("junk"):
            writer.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
            raise Gone
        if step.has("gzip"):
            body = gzip.compress(body)
        head = self.head_of(request, step, body)
        if step.has("half_head"):
            writer.write(head[:len(head) // 2])
            raise Gone
        writer.write(head)
        if step.has("half"):
            writer.write(body[:len(body) // 2])
            raise Gone
        if step.has("half_chunk"):
            writer.write(b"%x\r\n%s" % (len(body), body[:len(body) // 2]))
            raise Gone
        await self.send_body(step, body, writer)
        await writer.drain()
        if step.has("old") or step.has("bye"):
            raise Gone

    # ---- A connection ----

    async def one(self, reader, writer):
        request = await self.read_head(reader)
        if request is None:
            raise Gone
        step = self.step_of(request, self.requests.add(request.key))
        if step.has("early"):
            raise Gone
        if (request.get("expect") or "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await self.read_body(request, reader)
        body = await self.act(request, step)
        await self.answer(request, step, body, reader, writer)
        if (request.get("connection") or "").lower() == "close":
            raise Gone

    async def serve(self, reader, writer):
        try:
            while True:
                await self.one(reader, writer)
        except (Gone, OSError, asyncio.IncompleteReadError):
            pass
        except ValueError as error:
            print(f"not HTTP: {error}", file=sys.stderr, flush=True)
        finally:
            writer.close()


async def main(port, folder):
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    server = await asyncio.start_server(Upstream(folder).serve, HOST, port, limit=HEAD_MAX,
                                        backlog=1024)
    async with server:
        await end.wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
