"""Registers the device on import. Afterwards `torch.hpu` exists, and tensors on "hpu" use the CPU's memory."""

import torch

from habana_frameworks.torch import compiler, core, device, experts, hpu, internal, utils

torch._register_device_module("hpu", hpu)
device.register()
