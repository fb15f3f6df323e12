"""The command `gaudi-runtime hardware-report`: test a machine with cards and write the results to one file.

report    the file: facts and proofs
instance  one runtime process, observed like a pod by the kubelet and the operator
requests  the requests to an instance, and their results
proofs    the properties that a card must have, decided only by the facts
trial     the steps of the trial, in order
command   the command line
"""
