"""`gaudi-plan`: what a server would prepare, before anybody pays for a card."""
