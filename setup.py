"""Builds the native core. It is optional: without a compiler the Python twin does the work.

STEPSCOPE_REQUIRE_NATIVE=1 turns a failed build into an error, STEPSCOPE_WERROR=1 every compiler
warning. The Makefile sets both. A released package sets neither, because a newer compiler may warn
about something that today's does not.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

SOURCES = sorted(str(path) for path in Path("native").glob("*.c"))
HEADERS = sorted(str(path) for path in Path("native").glob("*.h"))
WARNINGS = ["-Wall", "-Wextra", "-Wshadow"]
if os.environ.get("STEPSCOPE_WERROR") == "1":
    WARNINGS.append("-Werror")

setup(
    ext_modules=[
        Extension(
            "stepscope.record._native",
            sources=SOURCES,
            depends=HEADERS,
            define_macros=[("_GNU_SOURCE", "1")],
            extra_compile_args=["-std=c11", "-O2", *WARNINGS, "-fvisibility=hidden"],
            libraries=["pthread"],
            optional=os.environ.get("STEPSCOPE_REQUIRE_NATIVE") != "1",
        )
    ]
)
