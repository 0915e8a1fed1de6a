# SPDX-License-Identifier: Apache-2.0
"""What the processes of a run tell about themselves: one JSON line an event, in one file.

A line is written by one write to a file opened for appending, so a process that is killed right
afterwards has told it, and lines of different processes do not mix.
"""
import json
import os
import threading
from collections import Counter, defaultdict


class Teller:
    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def tell(self, event, **facts):
        said = {"event": event, "pid": os.getpid(), **facts}
        os.write(self.file, json.dumps(said).encode() + b"\n")


class Events:
    """Reads them as they come, from any thread."""

    def __init__(self, path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        self.file = open(path, "rb")
        self.rest = b""
        self.lock = threading.Lock()
        self.verdicts = Counter()   # "begin EXECUTE" → how often
        self.outcomes = Counter()   # what became of requests: "charged", "refused", …
        self.ports = {}             # pid → where it listens
        self.errors = []            # mistakes of the demo itself
        self.fired = {}             # order → (fault, pid): it was killed or paused here
        self.struck = defaultdict(set)  # pid → the orders; one may strike two: it came twice
        self.late = {}              # order → the status that a paused writer gave when it woke up

    def read(self):
        with self.lock:
            lines = (self.rest + self.file.read()).split(b"\n")
            self.rest = lines.pop()
            for line in lines:
                self._take(json.loads(line))

    def _take(self, said):
        if said["event"] == "verdict":
            self.verdicts[f"{said['call']} {said['word']}"] += 1
        elif said["event"] == "outcome":
            self.outcomes[said["what"]] += 1
        elif said["event"] == "up":
            self.ports[said["pid"]] = said["port"]
        elif said["event"] == "fault":
            self.fired[said["order"]] = (said["fault"], said["pid"])
            self.struck[said["pid"]].add(said["order"])
        elif said["event"] == "error":
            self.errors.append(said["why"])
        elif said["event"] == "late":
            self.late[said["order"]] = said["status"]

    def close(self):
        self.file.close()
