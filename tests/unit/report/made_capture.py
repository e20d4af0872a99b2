"""A capture by hand: of an input-bound program, or of one that stands still."""

from __future__ import annotations

from stepscope.model.capture import Capture, CaptureDetails, GrowingLine
from stepscope.model.capture_request import CaptureRequest
from stepscope.model.details import FlameNode, HotLine, LayerTime, OpTime, PhaseStacks
from stepscope.model.finding import Location
from tests.unit.report.made_summary import input_bound, summary_of

LINE = Location("/my/data.py", 12, "load")


def _stacks(phase: str) -> PhaseStacks:
    inner = FlameNode("load", "/my/data.py", 12, 90.0)
    flame = FlameNode(phase, "", 0, 100.0, (FlameNode("main", "/my/train.py", 3, 95.0, (inner,)),))
    lines = (HotLine(LINE, 0.9, 0.5, 0.2, 90), HotLine(Location(file=""), 0.1, 0.1, None, 10))
    return PhaseStacks(phase, "main", 100.0, 100, lines, flame)


def made_capture() -> Capture:
    details = CaptureDetails(
        number=3,
        run="train",
        title="input-bound: 75 % of the time",
        began_unix=1_700_000_000.0,
        seconds=0.4,
        steps=20,
        request=CaptureRequest(operators=True, memory=True),
        alert="alert-1",
        location=LINE,
        ranks=(0, 1),
        stacks=(_stacks("input wait"), _stacks("profiling")),
        layers=(LayerTime("body.0", "Linear", 1.0, 2.0, None, 1.5, None, 4096.0),),
        layer_steps=17,
        ops=(OpTime("aten::mm", 4.0, 1.25, 0.3),),
        op_steps=3,
        memory=(GrowingLine(LINE, 8192.0, 0, 163840, 20, 0, (LINE,)),),
        notes=("A note.",),
    )
    return Capture(details, input_bound())


def standing() -> Capture:
    details = CaptureDetails(
        number=4,
        run="train",
        title="No step ended: it stands in input wait at /my/data.py:12",
        began_unix=1_700_000_000.0,
        seconds=10.0,
        steps=0,
        request=CaptureRequest(),
        ranks=(0,),
        stacks=(_stacks("input wait"),),
        notes=("No step ended within it.",),
    )
    return Capture(details, summary_of())
