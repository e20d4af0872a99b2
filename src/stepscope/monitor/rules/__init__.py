"""What can go wrong while a program trains: one rule a file."""
