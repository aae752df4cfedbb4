"""Judges of the environment: the image that ran, and whether hosts agree."""

from __future__ import annotations

from seatrial.evidence.facts import environment
from seatrial.evidence.facts.reasons import Reason
from seatrial.evidence.judges.look import Answer, Look, count, not_established, refuted, supported
from seatrial.trial.claims import Claim


def image_ran(_: Claim, look: Look) -> Answer:
    """The image that was asked for by digest, against the pods' `imageID`."""
    asked, ran = look.value(environment.IMAGE_ASKED), look.value(environment.IMAGE_RAN)
    if "@" not in asked:
        said = f"{asked} was asked for by tag; only a digest can be compared with {ran}"
        return not_established(Reason.UNKNOWN, said)
    if asked.rpartition("@")[2] == ran.rpartition("@")[2]:
        return supported(f"{ran} ran")
    return refuted(Reason.DIFFERENT, f"{asked} was asked for, {ran} ran")


def hosts_agree(_: Claim, look: Look) -> Answer:
    """The same packages on every host."""
    seen = look.value(environment.HOSTS)
    if not seen.agree:
        return not_established(Reason.CONTRADICTION, f"{seen.hosts} hosts have different packages")
    return supported(f"{count(seen.hosts, 'host')}, same packages")
