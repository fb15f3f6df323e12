"""Cards by name."""

from gaudi_runtime.catalog.cards.card import Card
from gaudi_runtime.catalog.cards.gaudi2 import GAUDI2
from gaudi_runtime.catalog.cards.gaudi3 import GAUDI3
from gaudi_runtime.errors import ConfigError

NONE = Card(name="none", memory=None)
"""A CPU: its memory is what the deployment gives, and nothing is known about its graphs."""

CARDS = {card.name: card for card in (GAUDI2, GAUDI3, NONE)}


def card_named(name: str) -> Card:
    """The described card. Raises ConfigError that lists the names."""
    try:
        return CARDS[name.lower()]
    except KeyError as error:
        raise ConfigError(f"card {name!r} is not described; choose one of {', '.join(CARDS)}") from error
