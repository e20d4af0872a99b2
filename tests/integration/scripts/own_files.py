"""A program closes every descriptor, as daemons do, opens 256 files, and later looks at them."""

import atexit
import gc
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

COUNT = 256


class OwnFiles:
    """Writes what happened to its files into `folder`/damage: after the program's work, in the last
    function of atexit, and when Python clears its last module."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._opened: list[tuple[int, int, int]] = []  # descriptor, device, inode
        # A copy: it is still there when the module itself has been cleared.
        self._os = SimpleNamespace(**vars(os))
        atexit.register(self.check, "atexit")
        sys.own_files = self  # type: ignore[attr-defined]  # cleared after all other modules

    def open(self) -> None:
        gc.collect()  # pipes of a loader that is over would close what gets their numbers
        os.closerange(3, 256)
        for number in range(COUNT):
            flags = os.O_RDWR if number % 2 else os.O_WRONLY  # every other one cannot be read
            path = f"{self._folder}/{number}.txt"
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL)
            os.write(descriptor, self._content(number))
            found = os.fstat(descriptor)
            self._opened.append((descriptor, found.st_dev, found.st_ino))

    def check(self, when: str) -> None:
        lines = [f"{when}: {damage}\n" for damage in self._damage()]
        self._append("damage", "".join(lines))
        self._append("checked", f"{when}\n")

    def _damage(self) -> list[str]:
        system, found = self._os, []
        for number, (descriptor, device, inode) in enumerate(self._opened):
            try:
                state = system.fstat(descriptor)
                if (state.st_dev, state.st_ino) != (device, inode):
                    found.append(f"{descriptor} is another file")
                elif system.lseek(descriptor, 0, 1) != len(self._content(number)):
                    found.append(f"{descriptor} has another position")
                elif self._read(number) != self._content(number):
                    found.append(f"{descriptor} has other content")
            except OSError as error:
                found.append(f"{descriptor}: {error}")
        return found

    def _read(self, number: int) -> bytes:
        file = self._os.open(f"{self._folder}/{number}.txt", self._os.O_RDONLY)
        content: bytes = self._os.read(file, 9999)
        self._os.close(file)
        return content

    def _append(self, name: str, text: str) -> None:
        system = self._os
        flags = system.O_WRONLY | system.O_CREAT | system.O_APPEND
        file = system.open(f"{self._folder}/{name}", flags)
        system.write(file, text.encode())
        system.close(file)

    def _content(self, number: int) -> bytes:
        return b"file %d of the program\n" % number

    def __del__(self) -> None:
        self.check("last module")


class Training:
    """A small model, and a loader with so many workers."""

    def __init__(self, workers: int = 0) -> None:
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.loader = DataLoader(
            TensorDataset(torch.randn(64, 16)), batch_size=4, num_workers=workers
        )

    def step(self, batch) -> None:  # type: ignore[no-untyped-def]
        self.optimizer.zero_grad()
        self.model(batch).square().mean().backward()
        self.optimizer.step()

    def run(self, seconds: float) -> None:
        """Whole epochs."""
        until = time.monotonic() + seconds
        while True:
            for (batch,) in self.loader:
                self.step(batch)
                time.sleep(0.002)
            if time.monotonic() >= until:
                return
