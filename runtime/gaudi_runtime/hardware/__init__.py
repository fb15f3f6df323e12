"""`gaudi-runtime hardware-report`: what a machine with cards does with this runtime, tried and written into one file.

report     the file: facts, and what they prove
plugin_names  which names of vLLM's plugin that we use the installed one has
instance   one runtime process, watched as the kubelet and the operator watch a pod
requests   what is asked of it, and how that went
proofs     what must be true of a card, judged from the facts alone
trial      the order of it all
command    the command line
"""
