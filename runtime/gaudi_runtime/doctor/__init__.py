"""`gaudi-runtime doctor`: what this machine and this image can do, and what to do where they cannot (docs/doctor.md).

`probes.py` looks, `judgement.py` judges what was found and is pure, `table.py` prints.
"""
