# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document: is it one, and is it about this server? The tests of HTTP hold every answer
that they get against it.
"""
import itertools
import re

import jsonschema
import pytest
import requests

from openapi_check import Description
from serving import ROOT, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("openapi")) as running:
        yield running


@pytest.fixture(scope="module")
def description(server):
    return Description(server.url)


def references(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_it_is_an_openapi_document(description):
    document = description.document
    assert document["openapi"] == "3.1.0"
    assert {"title", "version"} <= set(document["info"])
    assert set(document) == {"openapi", "info", "security", "paths", "components"}
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert re.fullmatch("[A-Za-z]+", name)
    used = {ref.removeprefix("#/components/schemas/") for ref in references(document)}
    assert used == set(schemas), "a schema that nobody uses, or one that is not there"


def test_operations_are_whole(description):
    identifiers = [operation["operationId"] for _, _, operation in description.operations()]
    assert len(identifiers) == len(set(identifiers)) > 20
    for method, path, operation in description.operations():
        where = f"{method} {path}"
        assert operation["summary"].endswith("."), where
        named = re.findall(r"{(\w+)}", path)
        given = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
        assert named == given, where
        for parameter in operation["parameters"]:
            assert parameter["required"] == (parameter["in"] == "path"), where
            assert parameter["description"], where
            jsonschema.Draft202012Validator.check_schema(parameter["schema"])
        assert ("requestBody" in operation) == (method in ("POST", "PUT")), where
        assert "200" in operation["responses"], where
        for status, answer in operation["responses"].items():
            assert answer["description"], f"{where} {status}"
            if int(status) >= 400 and path != "/readyz":
                assert "application/problem+json" in answer["content"], f"{where} {status}"


def test_requests_are_read_as_described(description, server):
    """What a schema refuses the server refuses, field by field."""
    bad = {"string": 5, "integer": "x", "boolean": "x", "array": "x"}
    tried = 0
    for method, path, operation in description.operations():
        if "application/json" not in operation.get("requestBody", {}).get("content", {}):
            continue
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        schema = description.document["components"]["schemas"][reference.rsplit("/", 1)[1]]
        url = server.url + re.sub(r"{\w+}", "x", path)
        for name, inner in {**schema["properties"], "unknown": {"type": "string"}}.items():
            answer = requests.request(method, url, json={name: bad[inner["type"]]}, timeout=30)
            assert answer.status_code == 400, f"{path} {name}"
            assert answer.json()["field"] == name, f"{path} {name}"
            tried += 1
        for name in schema["required"]:
            with pytest.raises(jsonschema.ValidationError):
                description.validate({}, schema)
            assert requests.request(method, url, json={}, timeout=30).status_code == 400
    assert tried > 30


def test_every_route_answers_and_no_other_does(description, server):
    described = {(method, path) for method, path, _ in description.operations()}
    for path, method in itertools.product(description.document["paths"],
                                          ("GET", "POST", "PUT", "DELETE", "PATCH")):
        url = server.url + re.sub(r"{\w+}", "x", path)
        answer = requests.request(method, url, timeout=30)
        if (method, path) in described:
            assert answer.status_code not in (405, 500), f"{method} {path}"
            kind = answer.json().get("type") if "json" in answer.headers["Content-Type"] else ""
            assert kind != "urn:once:problem:no-route", f"{method} {path}"
        else:
            assert answer.status_code == 405, f"{method} {path}"
            allowed = {m for m, p in described if p == path}
            assert set(answer.headers["Allow"].split(", ")) - {"HEAD"} == allowed
        description.check(answer)


def test_the_page_of_the_docs_names_every_route(description):
    page = (ROOT / "docs" / "http.md").read_text()
    for method, path, _ in description.operations():
        short = "\u2026/" + path.rsplit("/", 1)[1]
        assert f"{method} {path}`" in page or f"`{short}`" in page, f"{method} {path}"
