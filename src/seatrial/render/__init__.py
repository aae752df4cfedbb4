"""KubeRay manifests of a trial: generated, or the team's own, extended by what the trial needs."""

from seatrial.render.manifests import Rendered, render
from seatrial.render.write import Written, write

__all__ = ["Rendered", "Written", "render", "write"]
