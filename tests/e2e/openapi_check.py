# SPDX-License-Identifier: Apache-2.0
"""Holds answers of a server against the OpenAPI document that the same server gives; with the
fixtures that the tests of HTTP share.
"""
import itertools
import re
import socket
from urllib.parse import urlsplit

import jsonschema
import pytest
import requests

from serving import HOST, Server

numbers = itertools.count(1)


class Description:
    def __init__(self, url):
        self.document = requests.get(f"{url}/openapi.json", timeout=30).json()
        self.seen = set()  # (method, path of the document, status)
        self.shapes = [(re.compile(re.sub(r"\\{\w+\\}", "[^/]*", re.escape(path))), path)
                       for path in self.document["paths"]]

    def operations(self):
        """[(method, path, operation)]"""
        return [(method.upper(), path, operation)
                for path, item in self.document["paths"].items()
                for method, operation in item.items()]

    def path_of(self, url):
        path = urlsplit(url).path
        # Parts without braces first: /v1/ops/{ns}/{key} does not hide a longer one, but be sure.
        found = [shape for pattern, shape in self.shapes if pattern.fullmatch(path)]
        return min(found, key=lambda shape: shape.count("{"), default=None)

    def validate(self, value, schema):
        whole = {**schema, "components": self.document["components"]}  # what $ref points into
        jsonschema.Draft202012Validator(whole).validate(value)

    def check(self, answer):
        """An answer of requests: is it one that the document describes?"""
        method = answer.request.method.replace("HEAD", "GET")
        path = self.path_of(answer.request.url)
        if path is None or method.lower() not in self.document["paths"][path]:
            assert answer.status_code in (403, 404, 405, 421), f"{method} {answer.url}"
            self.validate(answer.json(), {"$ref": "#/components/schemas/Problem"})
            return
        described = self.document["paths"][path][method.lower()]["responses"]
        status = str(answer.status_code)
        assert status in described, f"{method} {path} does not describe {status}: {answer.text}"
        self.seen.add((method, path, answer.status_code))
        for name in ("X-Content-Type-Options", "Cache-Control"):
            assert name in answer.headers, f"{method} {path}: no {name}"
        assert "Access-Control-Allow-Origin" not in answer.headers
        content = described[status].get("content")
        if content is None:
            assert answer.content == b"", f"{method} {path} {status}: {answer.text}"
            return
        kind = answer.headers["Content-Type"]
        if "*/*" in content:
            return
        assert kind in content, f"{method} {path} {status}: {kind} is not in {list(content)}"
        if answer.request.method == "HEAD":
            assert answer.content == b""
        elif "json" in kind:
            self.validate(answer.json(), content[kind]["schema"])
            if "problem" in kind:
                assert answer.json()["status"] == answer.status_code


class Http:
    """requests, where every answer is held against the description."""

    def __init__(self, url, **options):
        self.url, self.options = url, options
        self.session = requests.Session()
        self.session.trust_env = False
        self.description = Description(url)

    def __call__(self, method, path, body=None, **options):
        if body is not None:
            options["json"] = body
        answer = self.session.request(method, self.url + path, timeout=60,
                                      **{**self.options, **options})
        self.description.check(answer)
        return answer

    def get(self, path, **options):
        return self("GET", path, **options)

    def post(self, path, body=None, **options):
        return self("POST", path, body, **options)

    def put(self, path, data, **options):
        return self("PUT", path, data=data, **options)

    def delete(self, path, **options):
        return self("DELETE", path, **options)

    def begin(self, ns, key, **fields):
        return self.post(f"/v1/ops/{ns}/{key}/begin", fields)

    def fence(self, ns, key, **fields):
        answer = self.begin(ns, key, **fields)
        assert answer.status_code == 200 and answer.json()["verdict"] == "EXECUTE", answer.text
        return answer.json()["fence"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("http"), "[namespace web]\ncodes = http\n") as running:
        yield running


@pytest.fixture(scope="module")
def http(server):
    return Http(server.url)


@pytest.fixture
def key():
    return f"key-{next(numbers)}"


def problem(answer, status, kind):
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    found = answer.json()
    assert found["type"] == f"urn:once:problem:{kind}", found
    return found


def raw(server, request):
    """The status of a request that no client would send."""
    with socket.create_connection((HOST, server.http), timeout=30) as s:
        s.sendall(request.encode("latin-1"))
        return int(s.recv(4096).split()[1])


def metric(url, name, **options):
    for line in requests.get(f"{url}/metrics", timeout=30, **options).text.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[-1])
    raise AssertionError(f"no {name}")
