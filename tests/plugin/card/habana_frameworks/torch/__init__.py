"""Importing this registers the device: `torch.hpu` is there, and what is put on "hpu" lives in the CPU's memory."""

import torch

from habana_frameworks.torch import compiler, core, device, hpu, internal, utils

torch._register_device_module("hpu", hpu)
device.register()
