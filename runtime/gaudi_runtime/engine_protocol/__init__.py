"""The interface between the runtime and its engines. Warm-up and HTTP import it, and engines/ implements it.

engine    the methods of an engine, and its optional abilities
group     the parts of an engine in other pods, and how the leader's engine reaches them
messages  the JSON lines between the leader and its ranks
"""
