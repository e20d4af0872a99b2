"""Keeps the user's files from what trials write.

In Python, writes go into a scratch folder and are seen there by the program (redirect.py); what
goes past Python is refused by the kernel (landlock.py). The launcher's side is guarded.py.
"""
