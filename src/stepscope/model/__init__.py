"""Frozen values that every other room speaks in. No torch, no files, no clocks."""
