"""Other ways to compute what a function of the user's computes, and whether they give the same."""
