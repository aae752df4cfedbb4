"""What is known about hardware and images, as data with a source column; what is not in a table is unknown."""

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
