"""Commands for people: they read, compute and print, and change nothing."""
