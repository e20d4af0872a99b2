from __future__ import annotations

import copyreg
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.errors import FormatError
from stepscope.interop import plain_pickle
from stepscope.interop.plain_pickle import load_plain_pickle
from tests.unit.interop.made_snapshot import made_snapshot

RAN: list[str] = []


def run_me(word: str = "ran") -> str:
    RAN.append(word)
    return word


class Bomb:
    def __reduce__(self) -> Any:
        return run_me, ("reduced",)


class WithState:
    def __init__(self) -> None:
        self.a = 1

    def __setstate__(self, state: Any) -> None:
        run_me("state")


HERE = f"{__name__}\n".encode()
NAME = b"\x8c" + bytes([len(__name__)]) + __name__.encode()
HOSTILE = {
    "GLOBAL and REDUCE": b"\x80\x02c" + HERE + b"run_me\n)R.",
    "STACK_GLOBAL and REDUCE": b"\x80\x04" + NAME + b"\x8c\x06run_me\x93)R.",
    "INST": b"\x80\x02(i" + HERE + b"run_me\n.",
    "OBJ": b"\x80\x02(c" + HERE + b"run_me\no.",
    "NEWOBJ": b"\x80\x02c" + HERE + b"WithState\n)\x81.",
    "NEWOBJ_EX": b"\x80\x04c" + HERE + b"WithState\n)}\x92.",
    "REDUCE of plain data": b"\x80\x02])R.",
    "BUILD of a dict": b"\x80\x02}}b.",
    "BUILD of a list": b"\x80\x02]}b.",
    "OBJ of plain data": b"\x80\x02(]o.",
    "persistent id": b"\x80\x02Pfile\n.",
    "binary persistent id": b"\x80\x02K\x01Q.",
    "EXT1": b"\x80\x02\x82\xf0.",
    "EXT2": b"\x80\x02\x83\xf0\x00.",
    "EXT4": b"\x80\x02\x84\xf0\x00\x00\x00.",
    "out-of-band buffer": b"\x80\x05\x97.",
    "protocol 0": pickle.dumps({"segments": []}, 0),
    "no protocol": b"}.",
    "a protocol to come": b"\x80\x06}.",
    "set": pickle.dumps({1, 2}),
    "bytearray": pickle.dumps(bytearray(b"a"), 5),
    "bytes": pickle.dumps(b"a"),
    "keys that are no text": pickle.dumps({1: 2}),
    "keys that cannot be keys": b"\x80\x02}]K\x01s.",
    "a key without a value": b"\x80\x02}(K\x01u.",
    "a long number": pickle.dumps(2**200),
    "something put into a number": b"\x80\x02K\x01K\x02a.",
    "nothing on the stack": b"\x80\x02a.",
    "no mark": b"\x80\x02]e.",
    "nothing to remember": b"\x80\x02q\x00.",
    "nothing to recall": b"\x80\x02h\x07.",
    "two values": b"\x80\x02NN.",
    "a mark left": b"\x80\x02N(.",
    "no value": b"\x80\x02.",
    "broken text": b"\x80\x02X\x01\x00\x00\x00\xff.",
    "text of 4 EB": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"a.",
    "text of 4 GB": b"\x80\x02X" + struct.pack("<I", 0xFFFFFFFF) + b"a.",
    "bytes of 4 EB": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"a.",
    "100,000 lists in each other": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "100,000 marks": b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b".",
    "empty": b"",
    "one byte": b"\x80",
}  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_comes_back_as_it_was(protocol: int) -> None:
    shared = ["twice"]
    value = {
        "numbers": [0, 255, 65_535, -1, 2**31, 2**63, -(2**63), 2**64 - 1, 1.5],
        "others": [None, True, False, "", "é\ud800", "a" * 300, (), (1,), (1, 2), (1, 2, 3)],
        "more": ((1, 2, 3, 4), [shared, shared], {}, [[]], list(range(3000))),
    }
    loaded = load_plain_pickle(pickle.dumps(value, protocol), "a file")
    assert loaded == value
    assert loaded["more"][1][0] is loaded["more"][1][1]


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_anything_else_is_refused_in_words_and_nothing_runs(content: bytes) -> None:
    RAN.clear()
    with pytest.raises(FormatError, match="Nothing of it was run") as refused:
        load_plain_pickle(content, "a file")
    assert str(refused.value).startswith("a file is not a pickle of plain data")
    assert RAN == []


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_objects_that_run_code_do_not_run_it(protocol: int) -> None:
    for value in ({"segments": [Bomb()]}, [WithState()]):
        content = pickle.dumps(value, protocol)
        RAN.clear()
        with pytest.raises(FormatError):
            load_plain_pickle(content, "a file")
        assert RAN == []
        pickle.loads(content)  # the file would have run it
        assert RAN


def test_an_extension_that_pickle_has_in_its_cache_is_not_reached() -> None:
    copyreg.add_extension(__name__, "run_me", 240)
    try:
        content = b"\x80\x02\x82\xf0)R."
        pickle.loads(content)
        RAN.clear()
        with pytest.raises(FormatError):
            load_plain_pickle(content, "a file")
        assert RAN == []
    finally:
        copyreg.remove_extension(__name__, "run_me", 240)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02]r\xff\xff\xff\xff.",
        b"\x80\x04\x95" + b"\xff" * 8 + b"].",
        HOSTILE["text of 4 GB"],
        HOSTILE["bytes of 4 EB"],
    ],
    ids=["a far place in the memo", "a long frame", "a long text", "long bytes"],
)
def test_what_a_file_declares_takes_no_memory(content: bytes) -> None:
    tracemalloc.start()
    try:
        try:
            assert load_plain_pickle(content, "a file") == []
        except FormatError:
            pass
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 200_000


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02(" + b"}" * 15_000 + b"t.",
        b"\x80\x02](" + b"]" * 10_000 + b"e(" + b"]" * 10_000 + b"e.",
        b"\x80\x02]" + b"".join(b"r" + struct.pack("<I", at) for at in range(10_000)) + b".",
        pickle.dumps(["x" * 300_000]),
    ],
    ids=["dicts", "lists", "memo", "text"],
)
def test_what_is_built_is_bounded(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    load_plain_pickle(content, "a file")
    monkeypatch.setattr(plain_pickle, "_MAX_HELD_BYTES", 1 << 19)
    with pytest.raises(FormatError, match="takes more than"):
        load_plain_pickle(content, "a file")


def test_a_list_that_holds_itself_is_read() -> None:
    loop: list[Any] = []
    loop.append(loop)
    loaded = load_plain_pickle(pickle.dumps({"segments": loop}), "a file")
    assert loaded["segments"][0] is loaded["segments"]


def test_a_file_torn_at_any_place_is_refused() -> None:
    content = pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc", "size": 9}]]})
    for end in range(len(content)):
        with pytest.raises(FormatError):
            load_plain_pickle(content[:end], "a file")


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=8))
def test_damage_gives_a_value_or_the_one_error(damage: list[tuple[int, int]]) -> None:
    content = bytearray(pickle.dumps(made_snapshot()))
    for place, byte in damage:
        content[2 + place % (len(content) - 2)] = byte
    RAN.clear()
    try:
        load_plain_pickle(bytes(content), "a file")
    except FormatError:
        pass
    assert RAN == []


@given(st.binary(max_size=200))
def test_noise_gives_a_value_or_the_one_error(noise: bytes) -> None:
    try:
        load_plain_pickle(b"\x80\x04" + noise, "a file")
    except FormatError:
        pass


def test_the_machine_uses_no_part_of_pickle() -> None:
    text = Path(plain_pickle.__file__).read_text()
    assert "import pickle" not in text
    assert "from pickle" not in text
