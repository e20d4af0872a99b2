"""Makes changes to a program without editing it, measures them and keeps what provably helps."""
