"""Where other programs meet stepscope: each file is one of them."""
