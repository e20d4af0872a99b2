"""The child process: its command line, its environment, its signals, and the live status line."""
