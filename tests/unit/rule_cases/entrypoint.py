"""Cases for the rules of this name's module."""

from __future__ import annotations

from tests.support.manifests import GONE, HEAD, HEAD_CONTAINER
from tests.support.rule_case import Case
from tests.unit.rule_cases.jobs import SELECTED, job
from tests.unit.rule_cases.submission import CONTAINER, ENTRYPOINT, HTTP, MODE

HEAD_GPU = {f"{HEAD_CONTAINER}.resources.limits.[nvidia.com/gpu]": "1"}
NODE_RANK = {f"{HEAD_CONTAINER}.env.1": {"name": "RUN", "value": "a"}}


def split(broken: str, right: str) -> Case:
    return job("entrypoint-shell-split", {ENTRYPOINT: broken}, {ENTRYPOINT: right})


CASES = (
    job("entrypoint-empty", {ENTRYPOINT: "  "}, {ENTRYPOINT: "", MODE: "InteractiveMode"}),
    job("entrypoint-empty", {ENTRYPOINT: GONE}, {ENTRYPOINT: GONE, f"{CONTAINER}.command": ["ray"]}),
    split("cd /fsx && python train.py", "bash -c 'cd /fsx && python train.py'"),
    split("pip install a; python train.py", 'python train.py --names "a;b|c" --note a\\;b'),
    split("python one.py\npython two.py\n", "python one.py \\\n  --steps 3\n"),
    split("python train.py > /fsx/log", "python train.py 2>&1"),
    split("python train.py | tee log", "python train.py --filter 'a|b'"),
    split("python train.py `date`", "python train.py '`date`'"),
    split("python train.py &", "python train.py --url http://a/b#c"),
    split("python train.py # all of it", "python train.py --tag=a#b"),
    split("python train.py 'a", 'python train.py "it\'s"'),
    split("python train.py --lr=(1)", "python train.py --lr=[1]"),
    split("cd ${DIR} && python train.py", "python ${SCRIPT}"),
    job("entrypoint-shell-split", {ENTRYPOINT: "a && b"}, {ENTRYPOINT: "a && b", **HTTP}),
    job("entrypoint-shell-split", {ENTRYPOINT: "a && b"}, {ENTRYPOINT: "a && b", f"{CONTAINER}.command": ["ray"]}),
    Case("entrypoint-shell-split", {ENTRYPOINT: "a; b"}, {ENTRYPOINT: "a; b"}, "RayJob", {}, {"kuberay": "1.2"}),
    job("entrypoint-dollar", {ENTRYPOINT: "python train.py $RUN"}, {ENTRYPOINT: "bash -c 'python train.py $RUN'"}),
    job("entrypoint-dollar", {ENTRYPOINT: 'python "it\'s $RUN"', **NODE_RANK}, {ENTRYPOINT: "python train.py \\$RUN"}),
    job("entrypoint-dollar", {ENTRYPOINT: "python train.py $(nproc)"}, {ENTRYPOINT: "python train.py $RUN", **HTTP}),
    job("entrypoint-dollar", {ENTRYPOINT: "python a.py --host $(hostname)"}, {ENTRYPOINT: "python a.py '$(hostname)'"}),
    job("entrypoint-whole-quoted", {ENTRYPOINT: "'python train.py'"}, {ENTRYPOINT: "'python' 'train.py'"}),
    job("entrypoint-whole-quoted", {ENTRYPOINT: '"python train.py"'}, {ENTRYPOINT: '"/fsx/train.sh"'}),
    job("entrypoint-torchrun", {ENTRYPOINT: "torchrun --nnodes 2 train.py"}, {ENTRYPOINT: "python torchrun.py"}),
    job(
        "entrypoint-torchrun",
        {ENTRYPOINT: "bash -c 'cd /fsx && NCCL_DEBUG=INFO accelerate launch train.py'"},
        {ENTRYPOINT: "torchrun train.py", **HEAD_GPU},
    ),
    job(
        "entrypoint-torchrun",
        {ENTRYPOINT: "python -m torch.distributed.run a.py"},
        {ENTRYPOINT: "torchrun a.py", **SELECTED},
    ),
    job("entrypoint-resources-json", {"spec.entrypointResources": "x=1"}, {"spec.entrypointResources": '{"x": 1}'}),
    job("entrypoint-resources-json", {"spec.entrypointResources": '{"x": "1"}'}),
    job(
        "entrypoint-cpus-infeasible",
        {"spec.entrypointNumCpus": 1},
        {f"{HEAD}.rayStartParams": {}, "spec.entrypointNumCpus": 4},
    ),
    job("entrypoint-cpus-infeasible", {"spec.entrypointNumCpus": 96}, {"spec.entrypointNumCpus": 0}),
)
