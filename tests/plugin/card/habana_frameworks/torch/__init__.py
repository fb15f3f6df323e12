"""Importing this module registers the device: `torch.hpu` exists, and tensors on "hpu" are kept in the CPU's memory."""

import torch

from habana_frameworks.torch import compiler, core, device, hpu, internal, utils

torch._register_device_module("hpu", hpu)
device.register()
