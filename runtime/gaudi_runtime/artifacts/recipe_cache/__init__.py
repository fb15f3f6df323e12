"""Compiled recipes that outlive their pods: copied from a volume before an engine loads, added to it after warm-up."""
