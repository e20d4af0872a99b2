"""Descriptors that we keep, after the program has closed them and opened its own files."""

from __future__ import annotations

import errno
import gc
import os
import socket
import time
from pathlib import Path

import pytest

from stepscope.collect.proc import KeptFile
from stepscope.descriptor import Descriptor, RawFile, identity_of, is_our_socket, map_file
from stepscope.notify.scrape_server import Page, ScrapeServer
from stepscope.tune.late_files import LateBuffer, LateFiles
from stepscope.tune.loading.sample_store import MISSING, SampleStore


def taken_over(number: int, path: Path) -> tuple[int, int]:
    """The program closes the number, and gets it for a file of its own."""
    os.close(number)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return identity(number)


def identity(number: int) -> tuple[int, int]:
    found = os.fstat(number)
    return found.st_dev, found.st_ino


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own"


def test_a_descriptor_is_given_while_it_is_ours(tmp_path: Path) -> None:
    file = Descriptor.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT)
    number = file.fileno()
    assert not os.get_inheritable(number)
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.fileno()
    file.close()


def test_a_number_that_the_program_took_over_is_neither_given_nor_closed(
    tmp_path: Path, own: Path
) -> None:
    file = Descriptor.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT)
    number = file.fileno()
    programs = taken_over(number, own)
    assert not file.is_ours
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        file.fileno()
    assert raised.value.errno == errno.EBADF
    file.close()
    del file
    assert identity(number) == programs
    os.close(number)


def test_a_descriptor_closes_when_it_goes(tmp_path: Path) -> None:
    file = Descriptor.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT)
    number = file.fileno()
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_raw_file_writes_only_while_its_descriptor_is_ours(tmp_path: Path, own: Path) -> None:
    raw = RawFile(Descriptor.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT))
    raw.write(b"first")
    number = raw.fileno()
    programs = taken_over(number, own)
    with pytest.raises(OSError, match="Bad file descriptor"):
        raw.write(b"second")
    raw.close()
    assert identity(number) == programs
    os.close(number)
    assert ((tmp_path / "a").read_bytes(), own.read_bytes()) == (b"first", b"")


def test_a_mapping_keeps_no_descriptor_and_lives_as_long_as_its_views(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(4096))
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with path.open("r+b") as file:
        view = map_file(file.fileno(), 4096).cast("Q")
        readable = map_file(file.fileno(), 4096, writable=False).cast("Q")
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208
    part = view[:1]
    view[0] = 7
    del view
    gc.collect()
    assert (part[0], readable[0]) == (7, 7)
    assert path.read_bytes()[:8] == (7).to_bytes(8, "little")
    assert readable.readonly


def test_what_cannot_be_mapped_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file, pytest.raises(PermissionError):
        map_file(file.fileno(), 4096)


def test_a_kept_file_is_opened_anew_and_the_programs_file_is_left_alone(own: Path) -> None:
    kept = KeptFile("/proc/self/statm")
    assert kept._file is not None
    number = kept._file.fileno()
    programs = taken_over(number, own)
    assert (kept.read() or b"").count(b" ") == 6
    kept.close()
    assert kept.read() is None
    assert identity(number) == programs
    os.close(number)


def test_a_sample_store_without_its_files_still_gives_what_it_has(own: Path) -> None:
    store = SampleStore(4, 1 << 16)
    assert store.put(0, 5)
    number = store._data_file.fileno()
    programs = taken_over(number, own)
    with pytest.raises(OSError, match="Bad file descriptor"):
        store.put(1, 6)
    assert (store.get(0), store.get(1)) == (5, MISSING)
    del store
    assert identity(number) == programs
    os.close(number)
    assert own.read_bytes() == b""


def test_lines_that_wait_get_into_their_own_file(tmp_path: Path, own: Path) -> None:
    path = tmp_path / "log"
    files = LateFiles(1.0, lambda: 0.0, os.fsync)
    late = LateBuffer(path.open("ab", 0), str(path), files)
    late.write(b"one\n")
    late.do()
    late.write(b"two\n")
    late.flush()  # the program counts on it, and closes everything
    number = late.fileno()
    programs = taken_over(number, own)
    late.close()
    assert identity(number) == programs
    os.close(number)
    assert (path.read_bytes(), own.read_bytes()) == (b"one\ntwo\n", b"")


def test_a_scrape_server_without_its_socket_stops_and_leaves_the_programs_alone() -> None:
    server = ScrapeServer("127.0.0.1", 0, lambda accept: Page(b"", "text/plain"))
    number = server._server.socket.fileno()
    with socket.create_server(("127.0.0.1", 0)) as programs:
        os.dup2(programs.fileno(), number)
        server.close()
        assert identity(number) == identity(programs.fileno())
        os.close(number)
        with socket.create_connection(programs.getsockname()):
            programs.settimeout(5)
            programs.accept()[0].close()


def test_a_socket_that_the_program_closed_forgets_its_number(own: Path) -> None:
    ours, other = socket.socketpair()
    opened = identity_of(ours.fileno())
    assert is_our_socket(ours, opened)
    number = ours.fileno()
    programs = taken_over(number, own)

    assert not is_our_socket(ours, opened)
    ours.close()
    other.close()

    assert identity(number) == programs
    os.close(number)


def test_an_fsync_aside_closes_no_file_of_the_program(tmp_path: Path, own: Path) -> None:
    taken: list[tuple[int, tuple[int, int]]] = []
    files = LateFiles(
        1.0, time.monotonic, lambda number: taken.append((number, taken_over(number, own)))
    )
    files.aside = lambda work: work()
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)

    files.sync_aside(descriptor)

    (number, programs) = taken[0]
    assert identity(number) == programs
    os.close(number)
    os.close(descriptor)
