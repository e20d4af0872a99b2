"""`stepscope doctor`"""

from __future__ import annotations

__all__ = ["doctor"]


def doctor() -> None:
    """Show what stepscope finds on this machine: its core, Python, torch, GPU, /proc, run folder."""
    from stepscope.session.doctor import show_doctor

    show_doctor()
