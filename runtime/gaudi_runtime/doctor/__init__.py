"""`gaudi-runtime doctor`: what this machine and this image can do, and what to do if something is missing.

See docs/reference/doctor.md.

probes     read the machine and the image into facts, with gaudi for the cards
trials     imports that may end a process, each in a process of its own
judgement  a row for each fact; pure
command    the command line
"""
