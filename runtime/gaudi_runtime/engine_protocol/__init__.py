"""The interface between the runtime and its engines: warm-up and HTTP import it, and engines/ implements it.

engine    the verbs of an engine, and what it may be able to do besides
group     the part of an engine in other pods, and how the leader's engine reaches it
messages  the JSON lines between the leader and its ranks
"""
