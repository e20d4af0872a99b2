"""Files of other tools ⇄ our values: nothing in them is trusted, and nothing in them runs."""
