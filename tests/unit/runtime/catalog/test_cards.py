"""The table of cards: figures with sources, measured rates, and the lookup of a card by name."""

import pytest

from gaudi_runtime.catalog.cards import CARDS, GAUDI2, GAUDI2_RATES, GAUDI3, Card, card_named
from gaudi_runtime.catalog.figure import Confidence, Figure, lowest_confidence
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.errors import ConfigError

MIB = 2**20


def figures(card: Card) -> list[Figure]:
    holders = [vars(card), vars(card.rates) if card.rates else {}]
    return [value for holder in holders for value in holder.values() if isinstance(value, Figure)]


@pytest.mark.parametrize("card", CARDS.values(), ids=lambda card: card.name)
def test_every_figure_is_positive_and_names_its_source(card: Card) -> None:
    assert all(figure.value > 0 and len(figure.source) > 10 for figure in figures(card))


@pytest.mark.parametrize("card", CARDS.values(), ids=lambda card: card.name)
def test_value_of_each_figure_is_in_its_range(card: Card) -> None:
    assert all(figure.least <= figure.value <= figure.most for figure in figures(card))


def test_model_of_the_measured_rates_is_in_the_catalog() -> None:
    assert known_shape(GAUDI2_RATES.model) is not None


def test_prompt_graphs_of_two_seeds_take_1_43_mib_per_token() -> None:
    assert GAUDI2_RATES.prompt_graph_bytes_per_token.value == 1.43 * MIB


def test_seed_000_decode_graphs_take_161_9_mib_for_112_sequences() -> None:
    assert 16 * (1 + 2 + 4) * GAUDI2_RATES.decode_graph_bytes_per_sequence.value == pytest.approx(161.9 * MIB)


def test_rates_of_gaudi_3_are_assumed() -> None:
    assert GAUDI3.rates is not None
    assert {figure.confidence for figure in vars(GAUDI3.rates).values() if isinstance(figure, Figure)} == {
        Confidence.ASSUMED
    }


def test_card_is_found_in_any_case() -> None:
    assert card_named("Gaudi2") is GAUDI2


def test_unknown_card_is_refused_with_the_known_cards() -> None:
    with pytest.raises(ConfigError, match=r"card 'h100' is unknown\. Choose one of gaudi2, gaudi3, none$"):
        card_named("h100")


def test_sum_has_the_lowest_confidence_of_its_parts() -> None:
    exact, assumed = Figure(1, "", Confidence.EXACT), Figure(1, "", Confidence.ASSUMED)
    assert lowest_confidence(exact, assumed) is Confidence.ASSUMED
