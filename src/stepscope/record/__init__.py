"""The one writer: everything that is recorded goes through here."""
