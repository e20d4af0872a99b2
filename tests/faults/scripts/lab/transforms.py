"""Transforms of images, in numpy."""

import numpy as np
import planted
import torch


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class Flip:
    def __call__(self, image):
        return image[..., ::-1] if np.random.rand() < 0.5 else image


class Elastic:
    """Bends the image along a smooth random field, and smooths the field as often as told."""

    def __init__(self, smoothings):
        self.smoothings = smoothings

    def __call__(self, image):
        with planted.cost("input-cpu"):
            side = image.shape[-1]
            field = np.random.randn(2, side, side)
            for _ in range(self.smoothings):
                field = (field + np.roll(field, 1, axis=1) + np.roll(field, 1, axis=2)) / 3
            grid = np.indices((side, side)) + np.round(4 * field).astype(int)
            rows, columns = np.clip(grid, 0, side - 1)
            return image[:, rows, columns]


class ToTensor:
    def __call__(self, image):
        return torch.from_numpy(np.ascontiguousarray(image, dtype=np.float32))
