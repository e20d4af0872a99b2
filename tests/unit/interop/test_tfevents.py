"""Records of event files; whole files are read back in tests/unit/notify/test_tensorboard.py."""

from __future__ import annotations

from stepscope.interop.tfevents import crc32c


def test_the_checksum_is_that_of_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
