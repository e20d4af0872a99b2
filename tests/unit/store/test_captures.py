"""captures/<number>.json, there and back, and what else may stand in its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from stepscope.errors import FormatError
from stepscope.model.capture import Capture
from stepscope.store.captures import capture_path, read_capture, write_capture
from tests.unit.report.made_capture import made_capture, standing

SCHEMAS = Path(__file__).parents[3] / "src" / "stepscope" / "store"


def test_a_capture_comes_back_as_it_was(tmp_path: Path) -> None:
    made = made_capture()
    path = write_capture(tmp_path, made)
    assert path == tmp_path / capture_path(made.details.number)
    found = read_capture(tmp_path, made.details.number)
    assert found is not None
    assert found.details == made.details
    assert found.summary.to_dict() == made.summary.to_dict()
    assert json.loads(path.read_text())["schema"] == 1


@pytest.mark.parametrize("made", [made_capture(), standing()])
def test_the_file_is_what_its_schema_says(made: Capture, tmp_path: Path) -> None:
    def schema(name: str) -> Any:
        return json.loads((SCHEMAS / name).read_text())

    document = json.loads(write_capture(tmp_path, made).read_text())
    registry = Registry[Any]().with_resources(
        (name, Resource.from_contents(schema(name)))
        for name in ("details.schema.json", "summary.schema.json")
    )
    Draft202012Validator(schema("capture.schema.json"), registry=registry).validate(document)


def test_a_capture_that_is_under_way_is_none(tmp_path: Path) -> None:
    assert read_capture(tmp_path, 3) is None


def _without(key: str) -> Any:
    return lambda plain: {name: value for name, value in plain.items() if name != key}


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda _: [], "not the JSON that stepscope wrote"),
        (lambda plain: plain | {"schema": 2}, "capture schema 2"),
        (_without("schema"), "capture schema None"),
        (_without("summary"), "it has no summary"),
        (_without("title"), "has no title"),
        (lambda plain: plain | {"summary": {}}, "summary has no steps"),
        (lambda plain: plain | {"seconds": "long"}, "capture.seconds should be a number"),
        (lambda plain: plain | {"stacks": [{"phase": 1}]}, "capture.stacks"),
        (lambda plain: plain | {"request": []}, "capture.request"),
    ],
)
def test_what_is_no_capture_is_refused_with_a_sentence(
    tmp_path: Path, spoil: Any, says: str
) -> None:
    path = write_capture(tmp_path, made_capture())
    path.write_text(json.dumps(spoil(json.loads(path.read_text()))))
    with pytest.raises(FormatError, match=says):
        read_capture(tmp_path, made_capture().details.number)
