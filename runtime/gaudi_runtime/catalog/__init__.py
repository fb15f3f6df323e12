"""What is known beforehand of cards and models, in figures that say where they come from, and of releases."""
