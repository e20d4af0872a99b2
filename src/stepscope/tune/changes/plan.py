"""A checkpoint plan: parts of the model are recomputed in backward, to save memory."""

from __future__ import annotations

from typing import Any, ClassVar

from stepscope.errors import StepscopeError
from stepscope.tune.injection import Injection, users_site

__all__ = ["Plan"]


class Plan(Injection):
    """settings: {"path": a plan as `stepscope plan` writes it}. Applied to the first model that has
    the modules it names, before that one runs."""

    name: ClassVar[str] = "plan"

    def install(self) -> None:
        self._path = str(self.settings["path"])
        self._manager: Any = None
        self._is_done = False
        self._why = ""

    def seen(self, module: Any) -> None:
        if self._is_done:
            return
        from stepscope.checkpointing.manager import CheckpointManager
        from stepscope.collect.checkpoints import door

        manager = CheckpointManager(module)
        try:
            manager.apply_file(self._path)
        except StepscopeError as error:
            self._why = self._why or str(error)
            return
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self.told.failed("applying the checkpoint plan", error)
            self._is_done = True
            return
        door().shut = True  # the plan takes the place of the program's own checkpoints
        self._manager, self._is_done = manager, True
        self.told.applied(f"the plan {self._path}", users_site())

    def stepped(self, optimizer: Any) -> None:
        if not self._is_done:
            self._is_done = True
            self.told.refused(self._why or "no module ran in the first step.")

    def undo(self) -> None:
        from stepscope.collect.checkpoints import door

        if self._manager is not None:
            self._manager.remove()
            door().shut = False
        super().undo()
