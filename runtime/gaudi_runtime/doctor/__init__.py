"""The command `gaudi-runtime doctor`: check what this machine and this image support, and advise how to fix it.

See docs/reference/doctor.md.

probes         collect facts about the machine and the image, with gaudi_facts for the cards
import_trials  imports that may end a process, each in its own process
checks         one row for each check, without side effects
command        the command line
"""
