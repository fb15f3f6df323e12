"""`gaudi-runtime hardware-report`: try a machine with cards and write the results into one file.

report     the file: facts, and what they prove
plugin_names  which names of vLLM's plugin that we use exist in the installed one
instance   one runtime process, watched as the kubelet and the operator watch a pod
requests   the requests to an instance, and their results
proofs     what must be true of a card, judged from the facts alone
trial      the steps of the trial, in order
command    the command line
"""
