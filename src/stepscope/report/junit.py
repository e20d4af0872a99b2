"""A comparison as JUnit XML: a test case for each figure that is judged."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from stepscope.model.comparison import Comparison, FigureRow, Judgement
from stepscope.printer import make_visible
from stepscope.report.compare_words import change, headline, interval, value_text

__all__ = ["as_junit"]


def as_junit(comparison: Comparison) -> str:
    """Worse: a failure. What cannot be told: skipped, so that it is seen and fails nothing."""
    judged = [row for row in comparison.rows if row.judgement is not None]
    counts = {
        "tests": len(judged),
        "failures": sum(row.judgement is Judgement.WORSE for row in judged),
        "errors": 0,
        "skipped": sum(row.judgement is Judgement.UNCLEAR for row in judged),
    }
    root = Xml.Element("testsuites", {key: str(count) for key, count in counts.items()})
    suite = Xml.SubElement(root, "testsuite", {"name": "stepscope compare", **root.attrib})
    for row in judged:
        _case(suite, row, comparison)
    lines = [headline(comparison), *comparison.reasons, *comparison.warnings]
    Xml.SubElement(suite, "system-out").text = make_visible("\n".join(lines))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _case(suite: Xml.Element, row: FigureRow, comparison: Comparison) -> None:
    name = {"classname": "stepscope.compare", "name": row.metric.title}
    case = Xml.SubElement(suite, "testcase", name)
    said = _said(row)
    if row.judgement is Judgement.WORSE:
        Xml.SubElement(case, "failure", {"message": said, "type": "regression"}).text = said
    elif row.judgement is Judgement.UNCLEAR:
        limit = f"{comparison.fail_over * 100:.3g} %"
        Xml.SubElement(case, "skipped", {"message": f"inconclusive about {limit}: {said}"})
    else:
        Xml.SubElement(case, "system-out").text = said


def _said(row: FigureRow) -> str:
    values = f"{value_text(row.metric, row.base)} to {value_text(row.metric, row.new)}"
    within = interval(row.ratio)
    return f"{values}, {change(row.ratio)}" + (f" ({within})" if within else "")
