# SPDX-License-Identifier: Apache-2.0
"""A connection to PostgreSQL that breaks at a chosen moment: a proxy whose connections are cut one by
one, by name of what gets lost; and the driver of the store on PostgreSQL (tests/postgres).
"""
import select
import socket
import struct
import subprocess
import threading
import time

from serving import HOST, once_binary

DRIVER = once_binary().resolve().parents[2] / "tests" / "postgres" / "pg_driver"
# Where the next question of a connection, or its answer, ends.
QUESTION = "question"  # it never arrives
ANSWER = "answer"      # it arrives, and the answer does not come back
HALF = "half"          # half of what comes of the answer does
ORPHAN = "orphan"      # as ANSWER, and the server does not notice: its session stays


def reset(side):
    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    side.close()


class Pair:
    def __init__(self, client, server):
        self.client, self.server = client, server
        self.mode, self.asked = None, False
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while self.turn():
                pass
        except OSError:
            pass
        reset(self.client)
        if self.mode != ORPHAN:
            reset(self.server)

    def turn(self):
        """False: it ends here."""
        ready, _, _ = select.select([self.client, self.server], [], [], 60)
        mode = self.mode
        if self.client in ready:
            question = self.client.recv(1 << 16)
            if mode == QUESTION or not question:
                return False
            self.asked = mode is not None
            self.server.sendall(question)
        elif self.server in ready:
            answer = self.server.recv(1 << 16)
            if mode and self.asked:
                if mode == HALF:
                    self.client.sendall(answer[:len(answer) // 2])
                return False
            if not answer:
                return False
            self.client.sendall(answer)
        return True


class Cutter:
    """Between a client and a port of this machine."""

    def __init__(self, to_port):
        self.to_port, self.pairs = to_port, []
        self.listener = socket.create_server((HOST, 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection((HOST, self.to_port))
            except OSError:
                if self.listener.fileno() < 0:
                    return
                reset(client)
                continue
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pairs.append(Pair(client, server))

    def url(self, url):
        """The same database, through here."""
        return url.replace(f":{self.to_port}/", f":{self.port}/")

    def live(self):
        self.pairs = [pair for pair in self.pairs if pair.client.fileno() >= 0]
        return self.pairs

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for pair in self.pairs:
            for side in (pair.client, pair.server):
                try:
                    side.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Driver:
    """A store that is open in a process of its own. See tests/postgres/pg_driver.c."""

    def __init__(self, url, *options, opens=True):
        assert DRIVER.exists(), f"{DRIVER} is not built; run `make`"
        self.process = subprocess.Popen([DRIVER, url, *map(str, options)], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.lines, self.said = [], []
        self.news = threading.Condition()
        self.threads = [threading.Thread(target=self.read, args=args, daemon=True) for args in
                        ((self.process.stdout, self.lines), (self.process.stderr, self.said))]
        for thread in self.threads:
            thread.start()
        self.ends_with = 0 if opens else 1
        self.first = self.line(lambda line: True, 60)
        assert (self.first == "open") == opens, (self.first, self.said)

    def read(self, stream, lines):
        for line in stream:
            with self.news:
                lines.append(line.rstrip("\n"))
                self.news.notify_all()

    def line(self, fits, seconds=60):
        """Takes the first line that fits, and waits for it."""
        until = time.monotonic() + seconds
        with self.news:
            while True:
                for line in self.lines:
                    if fits(line):
                        self.lines.remove(line)
                        return line
                left = until - time.monotonic()
                assert left > 0, (self.lines, self.said[-20:])
                self.news.wait(left)

    def send(self, line):
        self.process.stdin.write(line + "\n")

    def answer(self, name, seconds=60):
        """(word, fence, code, result, ms) of a call by its id."""
        words = self.line(lambda line: line.startswith(name + " "), seconds).split(" ")
        return words[1], *(words[2:4]), words[4], int(words[5])

    def ask(self, call, name, *words, seconds=60):
        self.send(" ".join([call, name, *map(str, words)]))
        return self.answer(name, seconds)

    def has(self, name):
        with self.news:
            return any(line.startswith(name + " ") for line in self.lines)

    def stats(self):
        self.send("stats")
        names = "asked_again unsettled links_up links_lost unreachable calls batches".split()
        numbers = self.line(lambda line: line.count(" ") == 6 and line.replace(" ", "").isdigit())
        return dict(zip(names, map(int, numbers.split())))

    def list(self, state):
        self.send(f"list {state}")
        end = self.line(lambda line: line.startswith(". "))
        with self.news:
            found = [line.split() for line in self.lines]
            self.lines.clear()
        return end[2:], found

    def load(self, threads, keys, ms):
        self.send(f"load {threads} {keys} {ms}")

    def loaded(self, seconds=120):
        names = "keys once twice never wrong given_up".split()
        numbers = self.line(lambda line: line.count(" ") == 5 and line.replace(" ", "").isdigit(),
                            seconds)
        return dict(zip(names, map(int, numbers.split())))

    def close(self):
        """(error, ms)."""
        self.send("close")
        words = self.line(lambda line: line.startswith("closed ")).split()
        assert self.process.wait(60) == 0, self.said
        return words[1], int(words[2])

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.process.stdin.close()  # its end is the end of the commands
            assert self.process.wait(60) == self.ends_with, self.said
        else:
            self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        if kind is not None:
            print("\n".join(self.said[-50:]))
