"""Facts about hardware and images, as tables with a source column. A fact that no table has is unknown."""

from seatrial.hardware.gpus import Gpu, gpu, gpus
from seatrial.hardware.images import ImageFacts, dlc_repository, image, images
from seatrial.hardware.instances import Instance, instance, instances

__all__ = [
    "Gpu",
    "ImageFacts",
    "Instance",
    "dlc_repository",
    "gpu",
    "gpus",
    "image",
    "images",
    "instance",
    "instances",
]
