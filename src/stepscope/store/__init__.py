"""Events and everything else of a run ⇄ disk. FORMAT.md says how the files look."""
