"""The forecast of a deployment before a card is paid for: memory, graphs and warm-up time, all estimated.

See docs/internals/memory.md.

inputs      the fields of a deployment that the forecast reads
memory      how a card is divided
graphs      how many graphs fit by the measured rates of the card, and their bytes and seconds
forecast    a deployment, a model and a card -> Forecast
result      the values of a Forecast
thresholds  whether a Forecast reaches the thresholds of the readiness gate
advice      the smallest change that makes a deployment fit
"""
