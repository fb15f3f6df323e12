"""The interface between the runtime and its engines: warm-up and HTTP import it, and engines/ implements it.

engine    the methods of an engine, and its optional abilities
group     the part of an engine in other pods, and how the leader's engine reaches it
messages  the JSON lines between the leader and its ranks
"""
