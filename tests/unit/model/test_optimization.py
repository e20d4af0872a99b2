from __future__ import annotations

import json

from stepscope.model.optimization import LEAST_GAIN, Optimization
from stepscope.model.trial import Speedup


def test_a_record_is_plain_json() -> None:
    record = Optimization(
        target="data loading",
        subject="Images",
        kept=True,
        change="DataLoader(..., num_workers=2)",
        reason="It was measured.",
        measured=Speedup(2.0, 1.5, 2.5, 3),
        before={"batch_s": 0.2},
        tried={"num_workers=4": None},
        notes=("the same to the bit",),
    )
    saved = json.loads(json.dumps(record.to_dict(), allow_nan=False))
    assert saved["measured"] == {"middle": 2.0, "low": 1.5, "high": 2.5, "rounds": 3}
    assert saved["tried"] == {"num_workers=4": None}
    assert saved["notes"] == ["the same to the bit"]
    assert str(record) == (
        "data loading of Images: DataLoader(..., num_workers=2): kept. It was measured."
    )


def test_a_gain_is_proved_when_it_is_sure_and_large_enough() -> None:
    assert Speedup(1.2, 1.1, 1.3, 5).is_proved(LEAST_GAIN)
    assert not Speedup(1.2, 0.9, 1.6, 5).is_proved(LEAST_GAIN)
    assert not Speedup(1.03, 1.02, 1.04, 5).is_proved(LEAST_GAIN)
    assert str(Speedup(1.2, 1.1, 1.3, 5)) == "1.20 times as fast (1.10 to 1.30)"
