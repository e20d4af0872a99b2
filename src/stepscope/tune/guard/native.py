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
        _replace(c, "PyTorchFileWriter", lambda kind: self._with_file(kind, _NEW))
        _replace(c, "PyTorchFileReader", lambda kind: self._with_file(kind, O_RDONLY))
        _replace(c, "import_ir_module", lambda call: self._with_second(call, O_RDONLY))
        _replace(c.ScriptModule, "save", lambda call: self._with_second(call, _NEW))
        _replace(torch, "from_file", self._mapped)
        _replace(torch.UntypedStorage, "from_file", lambda call: staticmethod(self._mapped(call)))

    def _with_file(self, kind: Any, flags: int) -> Any:
        """A class whose first argument is a file."""
        place = self.place

        def __init__(this: Any, file: Any, *args: Any, **named: Any) -> None:  # noqa: N807
            kind.__init__(this, place(file, flags), *args, **named)

        return type(kind.__name__, (kind,), {"__init__": __init__, "__module__": kind.__module__})

    def _with_second(self, call: Callable[..., Any], flags: int) -> Callable[..., Any]:
        """A method, or a function whose second argument is a file."""

        def act(first: Any, file: Any, *args: Any, **named: Any) -> Any:
            return call(first, self.place(file, flags), *args, **named)

        return act

    def _mapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def act(filename: Any, shared: bool | None = None, *args: Any, **named: Any) -> Any:
            flags = O_RDWR | O_CREAT if shared else O_RDONLY
            return call(self.place(filename, flags), shared, *args, **named)

        return act

    def _redirect_subprocess(self, subprocess: Any) -> None:
        """A child starts in a folder that only the program sees."""

        def in_folder(call: Callable[..., Any]) -> Callable[..., Any]:
            def act(*args: Any) -> Any:
                return call(*args[:_CWD], self._folder(args[_CWD]), *args[_CWD + 1 :])

            return act

        _replace(subprocess, "_fork_exec", in_folder)

    def _folder(self, folder: Any) -> Any:
        """None stays: the child starts where the program is."""
        try:
            return folder if folder is None else self._reading.standing(folder)
        except OSError:
            return folder

    def _redirect_sqlite(self, sqlite3: Any) -> None:
        call = sqlite3.connect

        def act(database: Any, *args: Any, **named: Any) -> Any:
            return call(self.database(database, uri=named.get("uri", False)), *args, **named)

        door = Door(call, act)
        sqlite3.connect = sqlite3.dbapi2.connect = door

    def database(self, database: Any, *, uri: bool = False) -> Any:
        """The name to give to SQLite, which opens files for writing even to read them."""
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


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Not every version has everything."""
    if hasattr(owner, name):
        setattr(owner, name, make(getattr(owner, name)))
