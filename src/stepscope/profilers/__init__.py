"""The public classes of the specifications: doors into a session, with nothing behind them."""
