"""`gaudi-runtime hardware-report`: try a machine with cards and write the results into one file.

report     the file: facts and proofs
plugin_names  the names of vLLM's plugin that we use, looked up in the installed plugin
instance   one runtime process, watched as the kubelet and the operator watch a pod
requests   the requests to an instance, and their results
proofs     the properties that a card must have, judged from the facts alone
trial      the steps of the trial, in order
command    the command line
"""
