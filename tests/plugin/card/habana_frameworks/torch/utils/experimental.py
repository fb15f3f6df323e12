from enum import IntEnum


class synDeviceType(IntEnum):
    """The numbers of the card generations."""

    synDeviceGaudi = 1
    synDeviceGaudi2 = 4
    synDeviceGaudi3 = 5


def _get_device_type() -> int:
    return synDeviceType.synDeviceGaudi3
