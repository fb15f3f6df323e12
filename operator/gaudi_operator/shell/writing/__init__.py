"""What a decision asks for, written.

apply   gates, children and at last the status, with a refusal in it if there was one
events  what has happened, never of a write that was not made
"""
