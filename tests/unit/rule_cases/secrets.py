"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import WORKER_CONTAINER
from tests.support.rule_case import Case

_TOKEN = "hf_" + "a1B2" * 8
_ENV = f"{WORKER_CONTAINER}.env.2"
_NOTE = "metadata.annotations.[example.com/note]"


def _runs(broken: str, right: str) -> Case:
    return Case("secret-in-entrypoint", {"spec.entrypoint": broken}, {"spec.entrypoint": right}, "RayJob")


def _variable(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


CASES: tuple[Case, ...] = (
    _runs(f"HF_TOKEN={_TOKEN} python train.py", "HF_TOKEN=$HF_TOKEN python train.py --max-tokens 100000"),
    _runs(f"python train.py --api-key sk-{'a1' * 15}", "python train.py --token-file /run/secrets/token"),
    _runs("python train.py --password correct-horse", "python train.py --api-key ${API_KEY} --eos-token '<|end|>'"),
    _runs("git clone https://me:abcdef12@example.com/r", "git clone https://example.com/r"),
    _runs("WANDB_API_KEY=0123456789abcdef python t.py", "WANDB_API_KEY=$(cat /run/key) python t.py --token_dtype bf16"),
    Case("secret-in-annotation", {_NOTE: f"login with {_TOKEN}"}, {_NOTE: "logs in with a Secret"}),
    Case(
        "secret-in-annotation",
        {"metadata.annotations.[example.com/api-token]": "abcdef0123456789"},
        {"metadata.annotations.[example.com/api-token-name]": "abcdef0123456789"},
    ),
    Case(
        "secret-in-plain-env",
        {_ENV: _variable("HF_TOKEN", "hf_abcdefgh")},
        {_ENV: _variable("OPENAI_API_KEY", "EMPTY")},
    ),
    Case(
        "secret-in-plain-env",
        {_ENV: _variable("HF_TOKEN", "${HF_TOKEN}")},
        {_ENV: _variable("HF_TOKEN", "$(TOKEN_OF_A_SECRET)")},
    ),
    Case(
        "aws-keys-in-env",
        {_ENV: _variable("AWS_ACCESS_KEY_ID", "${AWS_ACCESS_KEY_ID}")},
        {_ENV: _variable("AWS_ACCESS_KEY_ID", "$(KEY_OF_A_SECRET)")},
    ),
    Case(
        "aws-keys-in-env",
        {_ENV: _variable("AWS_SECRET_ACCESS_KEY", "abcdefgh")},
        {_ENV: {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": {"secretKeyRef": {"name": "aws", "key": "secret"}}}},
    ),
)
