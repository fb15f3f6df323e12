"""`gaudi-runtime doctor`: what this machine and this image can do, and what to do where they cannot.

See docs/reference/doctor.md.

command.py has probes.py look, which makes facts.py and lets trials.py try in processes of their own what may die;
judgement.py makes rows of the facts and is pure; then they are printed.
"""
