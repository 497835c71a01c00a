"""torch.Tensor's face, over NumPy's memory: on the CPU, or saying that it is in a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(eq=False)
class FakeTensor:
    """It has no buffer protocol, as a tensor of bfloat16 has none."""

    array: np.ndarray
    is_cuda: bool = False

    def is_contiguous(self) -> bool:
        return self.array.flags.c_contiguous

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def numel(self) -> int:
        return self.array.size

    def element_size(self) -> int:
        return self.array.itemsize


def cuda_tensor(array: np.ndarray) -> FakeTensor:
    """A tensor that says it is in a GPU."""
    return FakeTensor(array, is_cuda=True)
