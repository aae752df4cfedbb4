"""Checks KubeRay manifests without a cluster: structure, what the operator makes of them, and the rules over that."""
