"""Long-polls each pod for the report of its warm-up.

status_port  asks one pod, and checks what answers
open_polls   how many polls are held open at a time
reports      follows all pods, and wakes their resources
"""
