"""The forecast of a deployment before a card is paid for: memory, graphs and warm-up time, all estimated.

See docs/internals/warmup.md.

inputs      the fields of a deployment that the forecast depends on
memory      the division of a card's memory
graphs      the number of graphs that fit, their bytes and their seconds, from the measured rates of the card
forecast    calculates a Forecast from a deployment, a model and a card
result      the values of a Forecast
thresholds  checks whether a Forecast reaches the thresholds of the readiness gate
advice      the smallest change that makes a deployment fit
"""
