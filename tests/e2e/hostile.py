# SPDX-License-Identifier: Apache-2.0
"""Bad clients, each kind a process of its own: hostile.py KIND PORT. It prints "ready" when its harm
is in place, goes on until its standard input is closed, checks what it was answered where it was
promised an answer, prints one line about what became of it, and ends with status 0."""
import os
import random
import select
import socket
import struct
import sys
import threading
import time

from serving import HOST, Connection, Error, pack, raise_files

TCP_REPAIR = 19


def over():
    readable, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(readable)


def ready():
    print("ready", flush=True)


def until_over():
    sys.stdin.read()


def connect(port, buffer_size=None):
    s = socket.socket()
    if buffer_size is not None:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_size)
    # Closing resets: ten thousand ports are not kept waiting.
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.connect((HOST, port))
    return s


def push(s, data):
    """As much as the other side takes without waiting. How much that was."""
    s.setblocking(False)
    sent = 0
    try:
        while sent < len(data):
            sent += s.send(data[sent:sent + 65536])
    except BlockingIOError:
        pass
    return sent


def held(port):
    """Ten thousand connections that said something once."""
    sockets = [connect(port) for _ in range(10000)]
    for s in sockets:
        s.sendall(b"PING\r\n")
    answered = sum(s.recv(16) == b"+PONG\r\n" for s in sockets)
    assert answered == len(sockets), answered
    ready()
    until_over()
    for s in sockets:
        s.sendall(b"PING\r\n")
    answered = sum(s.recv(16) == b"+PONG\r\n" for s in sockets)
    assert answered == len(sockets), answered
    return f"{answered} connections were held and answer still"


def slow_readers(port):
    """Asks for 200 MB each, and never reads."""
    with Connection(port) as c:
        c("SET", "large", os.urandom(1 << 20), "EX", 600)
    sockets = [connect(port, buffer_size=4096) for _ in range(20)]
    sent = sum(push(s, pack("GET", "large") * 200) for s in sockets)
    ready()
    until_over()
    return f"{len(sockets)} asked with {sent} bytes for {len(sockets) * 200} MB and read none"


def greedy(port):
    """One short command after another, each of which asks for gigabytes. They are refused."""
    connections = [Connection(port, timeout=60) for _ in range(4)]
    connections[0]("SET", "greed", os.urandom(16 << 20), "EX", 600)
    ready()
    codes = {}
    while not codes or not over():
        for c in connections:
            c.send("MGET", *["greed"] * 500)
        for c in connections:
            answer = c.read()
            assert isinstance(answer, Error), f"{len(answer)} values of 16 MB in one answer"
            codes[answer.code] = codes.get(answer.code, 0) + 1
    return "commands that ask for 8 GB: " + ", ".join(f"{n} {code}" for code, n in codes.items())


def half_open(port):
    """Half a command and then nothing; half a connection; a connection whose end is gone."""
    command = pack("ONCE.BEGIN", "hostile", "half")
    sockets = []
    for i in range(600):
        s = connect(port)
        if i % 3 == 0:
            s.sendall(command[:1 + i % (len(command) - 1)])
        elif i % 3 == 1:
            s.sendall(command[:20])
            s.shutdown(socket.SHUT_WR)
        else:
            s.sendall(b"*2\r\n$4\r\nECHO\r\n$1000\r\n")
        sockets.append(s)
    gone = 0
    for _ in range(100):
        s = connect(port)
        s.sendall(pack("ONCE.BEGIN", "hostile", "half", "WAIT", 60000))
        try:
            s.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)  # then closing sends nothing
            gone += 1
        except OSError:
            pass  # not allowed to: it is reset instead
        s.close()
    ready()
    until_over()
    return f"{len(sockets)} halves, {gone} vanished without a word"


def http_halves(port):
    """Half a request and then nothing, a header that never ends, a body that does not come."""
    pieces = [b"POST /v1/ops/pay/half/begin HTTP/1.1\r\nHost: x\r\nContent-Le", b"G",
              b"POST /v1/ops/pay/half/begin HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
              b"Content-Length: 1000000\r\n\r\n{", b"GET / HTTP/1.1\r\nX: " + b"x" * 5000,
              b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50]
    sockets = [connect(port) for _ in range(1000)]
    for i, s in enumerate(sockets):
        push(s, pieces[i % len(pieces)])
    ready()
    until_over()
    return f"{len(sockets)} connections with half a request"


def byte_at_a_time(port):
    """Right commands, a byte a packet. They have to be answered all the same."""
    connections = [Connection(port) for _ in range(20)]
    ready()
    words = pack("ECHO", "slowly")
    rounds = 0
    while rounds == 0 or not over():
        for byte in words:
            for c in connections:
                c.socket.send(bytes([byte]))
        for c in connections:
            assert c.read() == b"slowly"
        rounds += 1
    return f"{rounds * len(connections)} commands came a byte at a time and were answered"


def junk(port):
    """What is not RESP, as fast as it goes, on as many connections as it takes."""
    rng = random.Random(1)
    pieces = [rng.randbytes(16384), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100, b"\0" * 8192,
              b"*3\r\n$3\r\nSET\r\n" + rng.randbytes(4096), b"\r\n" * 8192, b"A" * 200000,
              b"*-1\r\n*0\r\n$5\r\n", b"*1\r\n$-7\r\n", b":1\r\n+OK\r\n-ERR\r\n", b"\x16\x03\x01" * 99,
              b"*2\r\n$4\r\nECHO\r\n$3\r\nabcdef\r\n", b"*1\r\n$4\r\nPINGxx" * 50]
    ready()
    connections = sent = 0
    while not over():
        s = connect(port)
        s.settimeout(5)
        try:
            for _ in range(4):
                sent += push(s, rng.choice(pieces))
            s.setblocking(False)
            s.recv(65536)
        except (ConnectionError, BlockingIOError):
            pass
        s.close()
        connections += 1
    return f"{connections} connections, {sent} bytes of junk"


def giants(port):
    """Sizes that nobody would send: refused, or not paid for before they come."""
    heads = [b"*2147483647\r\n", b"*1000000\r\n", b"*99999999999999999999\r\n",
             b"*2\r\n$3\r\nGET\r\n$9223372036854775807\r\n", b"*2\r\n$3\r\nGET\r\n$536870912\r\n",
             b"*1\r\n$99999999999999999999\r\n"]
    modest = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$16000000\r\n"  # allowed, and never sent
    kept = [connect(port) for _ in range(500)]
    for s in kept:
        s.sendall(modest)
    ready()
    refused = 0
    while refused == 0 or not over():
        for head in heads:
            s = connect(port)
            s.settimeout(10)
            s.sendall(head)
            answer = s.recv(4096)
            assert answer.startswith(b"-"), f"{head!r} was answered with {answer!r}"
            refused += 1
            s.close()
    return f"{refused} giants refused, {len(kept)} promised 16 MB and sent nothing"


def pipeliner(port):
    """A hundred thousand commands before it reads a single answer; then all of them, in order."""
    count = 100_000
    data = b"".join(pack("ECHO", i) for i in range(count))
    c = Connection(port)
    c.socket.settimeout(30)
    first = push(c.socket, data)
    ready()
    until_over()
    c.socket.settimeout(60)
    writer = threading.Thread(target=c.socket.sendall, args=(data[first:],))
    writer.start()
    for i in range(count):
        answer = c.read()
        assert answer == str(i).encode(), f"answer {i} is {answer!r}"
    writer.join()
    return f"{first} of {len(data)} bytes were taken unread, then {count} answers came in order"


def begin_pipeliner(port):
    """The same with begins: each costs a durable write."""
    count = 20_000
    data = b"".join(pack("ONCE.BEGIN", "hostile", f"{os.getpid()}-{i}") for i in range(count))
    c = Connection(port)
    first = push(c.socket, data)
    ready()
    until_over()
    c.socket.settimeout(60)
    writer = threading.Thread(target=c.socket.sendall, args=(data[first:],))
    writer.start()
    fences = [c.read()[1] for _ in range(count)]
    writer.join()
    assert fences == sorted(set(fences))
    return f"{first} of {len(data)} bytes were taken unread, then {count} answers came in order"


def wrong_passwords(port):
    """From forty addresses. Each costs the server a slow hash; there is a bound on how many it will
    compare for one address."""
    ready()
    refused = {}
    sockets = [Connection(port, source=f"127.0.0.{2 + i}") for i in range(40)]
    while not refused or not over():
        for i, c in enumerate(sockets):
            try:
                c.send("AUTH", "alice", f"wrong-{i}-{time.monotonic_ns()}")
            except OSError:
                pass  # closed: the answer says so
        for i, c in enumerate(sockets):
            try:
                answer = c.read()
                assert isinstance(answer, Error), f"let in: {answer}"
                refused[answer.code] = refused.get(answer.code, 0) + 1
            except OSError:
                sockets[i] = Connection(port, source=f"127.0.0.{2 + i}")
                refused["closed"] = refused.get("closed", 0) + 1
    return "wrong passwords: " + ", ".join(f"{n} {code}" for code, n in sorted(refused.items()))


KINDS = {kind.__name__: kind for kind in (
    held, slow_readers, greedy, half_open, http_halves, byte_at_a_time, junk, giants, pipeliner, begin_pipeliner,
    wrong_passwords)}


if __name__ == "__main__":
    raise_files()
    print(KINDS[sys.argv[1]](int(sys.argv[2])), flush=True)
    os._exit(0)  # ten thousand sockets are closed by the system
