"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD_CONTAINER, WORKER
from tests.support.rule_case import Case
from tests.unit.rule_cases.jobs import job

YAML = "spec.runtimeEnvYAML"
HTTP = {"spec.submissionMode": "HTTPMode"}


def env(rule: str, broken: str, right: str, **others: object) -> Case:
    return job(rule, {YAML: broken, **others}, {YAML: right, **others})


CASES = (
    job("runtime-env-not-string", {YAML: {"pip": ["a==1"]}}, {YAML: '{"pip": ["a==1"]}'}),
    env("runtime-env-bad-yaml", "pip: [a", "pip: [a]"),
    env("runtime-env-bad-yaml", "just text", ""),
    env("runtime-env-bad-yaml", "- pip", "# nothing\n"),
    env("runtime-env-bad-yaml", "envvars: {A: b}", "env_vars: {A: b}"),
    env("runtime-env-bad-yaml", "env_vars: {A: 1}", 'env_vars: {A: "1"}'),
    env("runtime-env-bad-yaml", "env_vars: {A: true}", "env_vars:\n  A: ${B}"),
    env("runtime-env-bad-yaml", "pip: [a]\nuv: [b]", "uv: [b]\npy_executable: python"),
    env("runtime-env-bad-yaml", "working_dir: https://a/b", "working_dir: https://a/b.zip?c=d"),
    job(
        "runtime-env-bad-yaml",
        {YAML: "mine: 1"},
        {YAML: "mine: 1", f"{HEAD_CONTAINER}.env.1": {"name": "RAY_RUNTIME_ENV_PLUGINS", "value": "[]"}},
    ),
    env(
        "working-dir-mutable-url",
        "working_dir: https://github.com/a/b/archive/main.zip",
        "working_dir: https://a/0f3c.zip",
    ),
    env(
        "working-dir-mutable-url",
        "py_modules: [https://c/a/refs/heads/x.zip]",
        "py_modules: [https://c/refs/tags/v1.zip]",
    ),
    job("working-dir-local-http-mode", {YAML: "working_dir: ./src", **HTTP}, {YAML: "working_dir: ./src"}),
    env("working-dir-local-http-mode", "py_modules: [/fsx/a]", "working_dir: s3://a/b.zip", **HTTP),
    env("runtime-env-ray-vars", 'env_vars: {RAY_TMPDIR: "/x"}', 'env_vars: {RAY_DEDUP_LOGS: "0", NCCL_DEBUG: INFO}'),
    env("runtime-env-var-not-expanded", 'env_vars: {PYTHONPATH: "/a:$PYTHONPATH"}', 'env_vars: {PYTHONPATH: "/a:/b"}'),
    env("runtime-env-var-not-expanded", "env_vars: {A: 'it''s ${B}'}", "env_vars: {A: US$ 5}"),
    job("runtime-env-var-not-expanded", {YAML: "working_dir: $DIR"}, {YAML: "env_vars: {A: $B}", **HTTP}),
    job(
        "runtime-env-var-not-expanded",
        {YAML: "env_vars: {A: $B}", "spec.submitterPodTemplate": GONE},
        {
            YAML: "env_vars: {A: $B}",
            "spec.submitterPodTemplate.spec.containers.0.env": [{"name": "B", "value": "c"}],
        },
    ),
    job(
        "runtime-env-var-not-expanded",
        {YAML: "env_vars: {PYTHONPATH: '/a:$PYTHONPATH'}", f"{WORKER}.replicas": "${N}"},
        {YAML: "env_vars: {PYTHONPATH: /a}", f"{WORKER}.replicas": "${N}"},
    ),
    env(
        "runtime-env-secret",
        "env_vars: {HF_TOKEN: hf_0123456789}",
        "env_vars: {EOS_TOKEN: <end-of-text>, MAX_TOKENS: '2048'}",
    ),
    env("runtime-env-secret", "env_vars: {WANDB_API_KEY: 0123456789abcdef}", "env_vars: {HF_TOKEN: ''}"),
    env("runtime-env-secret", "pip: ['--index-url https://me:secret@a/b']", "pip: ['--index-url https://a/b']"),
)
