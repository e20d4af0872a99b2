"""The catalogue: what to do about a finding, and what that is expected to gain."""
