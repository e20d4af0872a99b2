"""
Runs train.py in each of the given folders, one after the other, as a script started by hand would.

torch is imported once, and each script runs in a fork: importing it takes longer than most of them.
What a script prints is in its folder as output.txt.
"""

import importlib
import os
import runpy
import sys

for module in ("numpy", "torch.utils.checkpoint", "torch.utils.data"):
    importlib.import_module(module)
for folder in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        runpy.run_path("train.py", run_name="__main__")
        break
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"{folder}: exit code {os.waitstatus_to_exitcode(status)}")
