"""`gaudi-runtime doctor`: check what this machine and this image support, and say how to fix what is missing.

See docs/reference/doctor.md.

probes         read the machine and the image into facts, with gaudi_facts for the cards
import_trials  imports that may end a process, each in a process of its own
checks         a row for each check; pure
command        the command line
"""
