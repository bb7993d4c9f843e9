"""spec/guest.schema.json: its examples hold, its bad examples do not, and nothing lacks an example."""

import json
import pathlib
import re

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "spec/guest.schema.json").read_text())
METHODS, NOTIFICATIONS = SCHEMA["x-methods"], SCHEMA["x-notifications"]


def lines_of(name):
    text = (ROOT / "spec" / name).read_text()
    return [json.loads(line) for line in text.splitlines()]


def validator(ref):
    return jsonschema.Draft202012Validator({"$schema": SCHEMA["$schema"], "$ref": ref, "$defs": SCHEMA["$defs"]})


def faults(case):
    """What is wrong with a case: as a message, as its kind, and as its method's result."""
    kind = {"error": "failure"}.get(case["kind"], case["kind"])
    found = list(validator("#/$defs/message").iter_errors(case["message"]))
    found += validator(f"#/$defs/{kind}").iter_errors(case["message"])
    if case["kind"] == "response" and not found:
        result = validator(f"#/$defs/{case['method']}/properties/result")
        found += result.iter_errors(case["message"]["result"])
    return found


def title(case):
    return case.get("why") or f"{case['kind']} {case['method']}"


EXAMPLES, BAD = lines_of("guest.examples.jsonl"), lines_of("guest.bad.jsonl")


def test_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_reference_leads_somewhere():
    refs = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(SCHEMA)))
    assert refs
    for ref in refs:
        at = SCHEMA
        for part in ref.split("/"):
            assert part in at, ref
            at = at[part]


@pytest.mark.parametrize("case", EXAMPLES, ids=title)
def test_example_holds(case):
    assert not faults(case), [fault.message for fault in faults(case)]


@pytest.mark.parametrize("case", BAD, ids=title)
def test_bad_example_does_not_hold(case):
    assert faults(case), case["why"]


def test_nothing_lacks_an_example():
    seen = {(case["kind"], case["method"]) for case in EXAMPLES}
    wanted = {(kind, method) for method in METHODS for kind in ("request", "response")}
    wanted |= {("notification", method) for method in NOTIFICATIONS}
    assert wanted <= seen, wanted - seen
    assert any(kind == "error" for kind, _ in seen)


def test_every_method_has_params_and_result():
    for method in METHODS:
        assert {"params", "result"} <= set(SCHEMA["$defs"][method]["properties"]), method
    for name in NOTIFICATIONS:
        assert "params" in SCHEMA["$defs"][name]["properties"], name


def test_unknown_members_are_allowed_everywhere():
    assert "additionalProperties" not in json.dumps(SCHEMA)
    assert "unevaluatedProperties" not in json.dumps(SCHEMA)


@pytest.mark.parametrize("case", EXAMPLES, ids=title)
def test_example_holds_with_unknown_members(case):
    def grown(value):
        if isinstance(value, dict):
            return {**{key: grown(item) for key, item in value.items()}, "x_later": {"deep": [1]}}
        return [grown(item) for item in value] if isinstance(value, list) else value

    assert not faults({**case, "message": grown(case["message"])})


def test_errors_in_examples_are_rows_of_the_list():
    text = (ROOT / "src/base/errors.def").read_text()
    rows = {name: int(number) for name, number in re.findall(r"^ERR\((\w+),\s*(\d+),", text, re.M)}

    def errors(value):
        if isinstance(value, dict):
            if isinstance(value.get("data"), dict) and "code" in value["data"]:
                yield value
            for item in value.values():
                yield from errors(item)
        elif isinstance(value, list):
            for item in value:
                yield from errors(item)

    found = list(errors([case["message"] for case in EXAMPLES]))
    assert len(found) >= 5
    for error in found:
        assert rows.get(error["data"]["code"]) == error["code"], error
