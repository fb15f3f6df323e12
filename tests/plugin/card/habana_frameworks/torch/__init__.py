"""Registers the device when it is imported: `torch.hpu` exists, and tensors on "hpu" are stored in the CPU's memory."""

import torch

from habana_frameworks.torch import compiler, core, device, hpu, internal, utils

torch._register_device_module("hpu", hpu)
device.register()
