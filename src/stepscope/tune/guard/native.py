"""Libraries that open files by name without Python: they are given the redirected names."""

from __future__ import annotations

from os import O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, fsdecode, fspath

from stepscope.collect.imports import when_imported
from stepscope.tune.guard import raw
from stepscope.tune.guard.doors import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepscope.tune.guard.opening import Opening
    from stepscope.tune.guard.reading import Reading

__all__ = ["Native"]

_DATABASE_LIMIT_BYTES = 256 * 1024**2  # a larger one is data to read: it is not copied
_DATABASE_PARTS = ("-wal", "-shm", "-journal")
_CWD = 4  # the place of the working folder among the arguments of fork_exec
_NEW = O_WRONLY | O_CREAT | O_TRUNC


class Native:
    """Waits for the libraries and redirects each when the program imports it."""

    def __init__(self, opening: Opening, reading: Reading) -> None:
        self._opening, self._reading = opening, reading

    def wait(self) -> None:
        when_imported("sqlite3", self._redirect_sqlite)
        when_imported("subprocess", self._redirect_subprocess)
        when_imported("torch", self._redirect_torch)

    def place(self, file: Any, flags: int) -> Any:
        """The name to give to a library. Anything but a path stays, and so does a path that
        cannot be opened so: the library says what is wrong with it."""
        if not isinstance(file, (str, bytes)) and not hasattr(file, "__fspath__"):
            return file
        try:
            return self._opening.place(file, flags)
        except OSError:
            return file

    def _redirect_torch(self, torch: Any) -> None:
        c = torch._C
        c.PyTorchFileWriter = self._with_file(c.PyTorchFileWriter, _NEW)
        c.PyTorchFileReader = self._with_file(c.PyTorchFileReader, O_RDONLY)
        c.import_ir_module = self._with_second(c.import_ir_module, O_RDONLY)
        c.ScriptModule.save = self._with_second_method(c.ScriptModule.save, _NEW)
        torch.from_file = self._mapped(torch.from_file)
        torch.UntypedStorage.from_file = staticmethod(self._mapped(torch.UntypedStorage.from_file))

    def _with_file(self, kind: Any, flags: int) -> Any:
        place = self.place

        def __init__(this: Any, file: Any, *args: Any, **named: Any) -> None:  # noqa: N807
            kind.__init__(this, place(file, flags), *args, **named)

        return type(kind.__name__, (kind,), {"__init__": __init__, "__module__": kind.__module__})

    def _with_second(self, call: Callable[..., Any], flags: int) -> Door:
        def act(first: Any, file: Any, *args: Any, **named: Any) -> Any:
            return call(first, self.place(file, flags), *args, **named)

        return Door(call, act)

    def _with_second_method(self, call: Callable[..., Any], flags: int) -> Callable[..., Any]:
        def save(this: Any, file: Any, *args: Any, **named: Any) -> Any:
            return call(this, self.place(file, flags), *args, **named)

        return save

    def _mapped(self, call: Callable[..., Any]) -> Door:
        def act(filename: Any, shared: bool | None = None, *args: Any, **named: Any) -> Any:
            flags = O_RDWR | O_CREAT if shared else O_RDONLY
            return call(self.place(filename, flags), shared, *args, **named)

        return Door(call, act)

    def _redirect_subprocess(self, subprocess: Any) -> None:
        """A child starts in a folder that only the program sees."""
        call = subprocess._fork_exec

        def act(*args: Any) -> Any:
            if args[_CWD] is None:
                return call(*args)
            try:
                there = self._reading.standing(args[_CWD])
            except OSError:
                there = args[_CWD]
            return call(*args[:_CWD], there, *args[_CWD + 1 :])

        subprocess._fork_exec = Door(call, act)

    def _redirect_sqlite(self, sqlite3: Any) -> None:
        call = sqlite3.connect

        def act(database: Any, *args: Any, **named: Any) -> Any:
            return call(self._database(database, uri=named.get("uri", False)), *args, **named)

        door = Door(call, act)
        sqlite3.connect = sqlite3.dbapi2.connect = door

    def _database(self, database: Any, *, uri: bool) -> Any:
        text = fsdecode(fspath(database))
        if uri and text.startswith("file:"):
            path, mark, query = text[len("file:") :].partition("?")
            if "%" in path or path.startswith("//") or "mode=memory" in query:
                return database
            return "file:" + self._database_file(path) + mark + query
        return database if text in ("", ":memory:") else self._database_file(text)

    def _database_file(self, path: str) -> str:
        place = str(self.place(path, O_RDONLY))
        try:
            if raw.stat(place).st_size > _DATABASE_LIMIT_BYTES:
                return place
        except OSError:
            pass  # a new one
        for part in _DATABASE_PARTS:
            self.place(path + part, O_RDWR)
        return str(self.place(path, O_RDWR | O_CREAT))
