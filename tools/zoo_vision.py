"""Small models of timm and torchvision."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from zoo_measure import Case, NotBuiltError, brief, seed

LARGEST = 25e6
"""Parameters of a model at most."""

SMALL = (
    "test_", "atto", "femto", "pico", "nano", "micro", "xxs", "xx_small", "x_small", "xs", "xsmall", "mini",
    "tiny", "_s0", "_t0", "small", "_s", "_050", "_b0", "_00", "b0", "0", "18", "26",
)  # fmt: skip
"""What the names of small models of timm contain, the smallest first."""
LARGE = re.compile(
    r"large|huge|giant|xl|base|_b$|152|101|200|enormous|gigantic|so\d+0m|[1-9]00m?f", re.IGNORECASE
)
PER_MODULE = 5
"""Models of one of timm's modules at most."""


class Timm:
    """The smallest models of each module of timm, at small image sizes."""

    TRIES: tuple[tuple[int | None, dict[str, Any]], ...] = (
        (64, {"img_size": 64, "embed_dim": 48, "depth": 2, "num_heads": 4}), (64, {"img_size": 64}), (64, {}),
        (96, {"img_size": 96}), (128, {"img_size": 128}), (128, {}), (None, {}), (224, {}),
    )  # fmt: skip
    """Image size, None for the model's own, and arguments."""

    def names(self) -> list[str]:
        """Return the models, the first of each module first, those of other stems before their likes."""
        import timm

        chosen = []
        for path in sorted(Path(timm.models.__file__).parent.glob("[a-z]*.py")):
            models = sorted(timm.list_models(module=path.stem), key=self._rank)
            stems: dict[str, str] = {}
            for model in models:
                stems.setdefault(re.split(r"[_\d]", re.sub("^(test|tf|legacy)_", "", model))[0], model)
            models = [*stems.values(), *(model for model in models if model not in stems.values())]
            chosen.append(models[:PER_MODULE])
        return [models[i] for i in range(PER_MODULE) for models in chosen if len(models) > i]

    @staticmethod
    def _rank(name: str) -> tuple[bool, int, int, str]:
        small = next((number for number, part in enumerate(SMALL) if part in name), len(SMALL))
        return bool(LARGE.search(name)), small, len(name), name

    def build(self, name: str) -> Case:
        """Return a model with the first image size and arguments that it takes a plain step with."""
        import timm

        errors = []
        for size, arguments in self.TRIES:
            try:
                seed()
                model = timm.create_model(name, pretrained=False, num_classes=10, **arguments).train()
                return _of_images(model, size, getattr(model, "default_cfg", {}), ", ".join(arguments))
            except Exception as error:
                errors.append(brief(str(error), 80))
        raise NotBuiltError(" || ".join(errors[-3:]))


def _of_images(model: nn.Module, size: int | None, config: dict[str, Any], about: str = "") -> Case:
    if sum(p.numel() for p in model.parameters()) > LARGEST:
        raise NotBuiltError("too large")
    channels, height, _ = config.get("input_size", (3, 224, 224))
    if (size or height) > 300:
        raise NotBuiltError("images too large")
    generator = torch.Generator().manual_seed(7)
    images = torch.randn(2, channels, size or height, size or height, generator=generator)
    case = Case(model, {"x": images}, lambda model, inputs: model(inputs["x"]))
    case.notes = [type(model).__name__, f"{size or height} pixels", about]
    case.attempt()
    return case


class Torchvision:
    """The smallest model of each family of torchvision."""

    NAMES = """alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet
    inception_v3 maxvit_t mnasnet0_5 mobilenet_v2 mobilenet_v3_small regnet_x_400mf regnet_y_400mf resnet18
    resnet50 resnext50_32x4d
    shufflenet_v2_x0_5 squeezenet1_0 squeezenet1_1 swin_t swin_v2_t vgg11 vgg11_bn vit_b_16 wide_resnet50_2
    deeplabv3_mobilenet_v3_large deeplabv3_resnet50 fcn_resnet50 lraspp_mobilenet_v3_large
    fasterrcnn_mobilenet_v3_large_320_fpn fcos_resnet50_fpn retinanet_resnet50_fpn ssd300_vgg16
    ssdlite320_mobilenet_v3_large maskrcnn_resnet50_fpn keypointrcnn_resnet50_fpn
    r3d_18 mc3_18 r2plus1d_18 mvit_v1_b s3d swin3d_t raft_small raft_large"""
    DETECTION = re.compile("rcnn|fcos|retinanet|ssd")
    SIZES: ClassVar = {"inception_v3": 299, "maxvit_t": 224, "vit_b_16": 32, "alexnet": 128}
    """Pixels, where 64 are too few or too many."""
    CLIPS: ClassVar = {
        "s3d": (16, 224), "mvit_v1_b": (16, 224),
        "r3d_18": (4, 64), "mc3_18": (4, 64), "r2plus1d_18": (4, 64), "swin3d_t": (4, 64),
    }  # fmt: skip
    """Frames and pixels."""

    def names(self) -> list[str]:
        return self.NAMES.split()

    def build(self, name: str) -> Case:
        from torchvision import models

        seed()
        generator = torch.Generator().manual_seed(7)
        if name == "vit_b_16":
            model: nn.Module = models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)
        elif self.DETECTION.search(name):
            model = models.get_model(name, weights=None, weights_backbone=None)
        else:
            inner = {"weights_backbone": None} if re.search("deeplab|fcn|lraspp", name) else {}
            model = models.get_model(name, weights=None, **inner)
        if self.DETECTION.search(name):
            case = self._detection(name, model, generator)
        elif name.startswith("raft"):
            images = [torch.rand(1, 3, 128, 128, generator=generator) for _ in range(2)]
            case = Case(
                model, {"images": images}, lambda model, inputs: model(*inputs["images"], num_flow_updates=3)
            )
        else:
            size = self.SIZES.get(name, 64)
            shape = (2, 3, size, size)
            if name in self.CLIPS:
                frames, size = self.CLIPS[name]
                shape = (1, 3, frames, size, size)
            images = torch.randn(*shape, generator=generator)
            case = Case(model, {"x": images}, lambda model, inputs: model(inputs["x"]))
        case.model.train()
        case.notes = [type(model).__name__]
        case.attempt()
        return case

    def _detection(self, name: str, model: nn.Module, generator: torch.Generator) -> Case:
        images = [torch.rand(3, 96, 96, generator=generator) for _ in range(2)]
        boxes = torch.tensor([[5.0, 5.0, 60.0, 60.0], [20.0, 30.0, 80.0, 90.0]])
        target = {"boxes": boxes, "labels": torch.tensor([1, 1 if "keypoint" in name else 2])}
        if "mask" in name:
            target["masks"] = torch.randint(0, 2, (2, 96, 96), generator=generator, dtype=torch.uint8)
        if "keypoint" in name:
            places = torch.rand(2, 17, 2, generator=generator) * 50 + 20
            target["keypoints"] = torch.cat([places, torch.ones(2, 17, 1)], -1)
        if not re.search("320|300", name):
            model.transform.min_size, model.transform.max_size = (96,), 128
        inputs = {"images": images, "targets": [dict(target), dict(target)]}
        return Case(model, inputs, lambda model, inputs: model(inputs["images"], inputs["targets"]))
