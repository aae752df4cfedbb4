"""The live port: the real `kubernetes` client against a small API server on this machine, well-behaved and not."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.check.command import Settings, run
from seatrial.check.server.asking import ask
from seatrial.cli.main import main
from seatrial.errors import InputError
from seatrial.kube.cluster import LiveCluster
from seatrial.kube.connect import connect
from seatrial.kube.dry_run import Accepted, Rejected
from seatrial.kube.failures import Unanswered
from seatrial.kube.http import ApiServer
from tests.support.manifests import changed, resource
from tests.unit.server_answers.api_server import BREAK_OFF, CHUNKED, DRIP, HANG, Server, serve
from tests.unit.server_answers.world import (
    AUTOSCALER,
    CLAIMS,
    CRD,
    CREATE,
    DAEMON_SETS,
    DEPLOYMENTS,
    ML,
    NODE_POOLS,
    NODES,
    OPENAPI,
    QUEUES,
    QUOTAS,
    STORAGE_CLASSES,
    VOLUMES,
    World,
    recorded,
    status,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(World()) as running:
        yield running


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes a kubeconfig whose current context is at a URL, and points KUBECONFIG there."""

    def write(url: str, context: str = "dev") -> Path:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "a-token"}}],
            "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(content))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        return tmp_path / "kubeconfig"

    return write


@pytest.fixture
def cluster(server: Server, kubeconfig: Callable[[str], Path]) -> LiveCluster:
    kubeconfig(server.url)
    return connect(timeout_s=0.3)


def test_the_context_is_the_current_one(cluster: LiveCluster, server: Server) -> None:
    assert (cluster.title, cluster.namespace) == (f"dev at {server.url}", "ml")


def test_every_question(cluster: LiveCluster, server: Server) -> None:
    nodes = cluster.nodes()
    assert not isinstance(nodes, Unanswered)
    assert [(n.name, n.ready, len(n.taints), int(n.allocatable["cpu"])) for n in nodes] == [("cpu-1", True, 0, 15), ("gpu-1", True, 1, 47), ("gpu-2", True, 1, 47)]  # fmt: skip
    [operator] = cluster.operators()  # type: ignore[misc]
    assert (operator.version, operator.scheduler, operator.gates["RayJobDeletionPolicy"]) == ("1.7.0", "", True)
    [selector] = server.asked(DEPLOYMENTS)[0].query["labelSelector"]
    assert "kuberay-operator" in selector
    daemon_sets, classes, [volume] = cluster.daemon_sets(), cluster.storage_classes(), cluster.volumes()  # type: ignore[misc]
    assert not isinstance(daemon_sets, Unanswered)
    assert not isinstance(classes, Unanswered)
    assert [d.name for d in daemon_sets][1] == "nvidia-device-plugin-daemonset"
    assert [(c.name, c.default, c.waits) for c in classes] == [("gp3", True, True), ("fsx-sc", False, False)]
    assert (volume.name, volume.terms) == ("pv-fsx", ())
    [claim], [queue], [quota] = cluster.claims("ml"), cluster.queues("ml"), cluster.quotas("ml")  # type: ignore[misc]
    assert (claim.phase, claim.volume, claim.document["kind"]) == ("Bound", "pv-fsx", "PersistentVolumeClaim")
    assert (queue.name, queue.inactive, quota.hard["pods"], quota.scoped) == ("training", "", 50, False)
    assert (cluster.service_accounts("ml"), cluster.autoscalers()) == (("default", "train"), ())
    assert (cluster.namespace_phase("ml"), cluster.namespace_phase("other")) == ("Active", None)


def test_requests_carry_the_credentials_and_never_write(cluster: LiveCluster, server: Server) -> None:
    server.world.post(status("409"))
    assert cluster.dry_run(resource(), "ml") == Accepted(exists=True)
    cluster.nodes()
    assert {request.headers["authorization"] for request in server.seen} == {"Bearer a-token"}
    posted, patched, _ = server.seen
    assert (posted.method, posted.path, posted.query) == ("POST", CREATE, {"dryRun": ["All"], "fieldValidation": ["Strict"]})  # fmt: skip
    assert posted.body == patched.body == resource()
    assert (patched.method, patched.path, patched.query["dryRun"]) == ("PATCH", f"{CREATE}/base", ["All"])
    assert (patched.headers["content-type"], patched.query["fieldManager"]) == ("application/apply-patch+yaml", ["seatrial"])  # fmt: skip


def test_a_request_that_would_write_is_never_sent(cluster: LiveCluster, server: Server) -> None:
    with pytest.raises(AssertionError, match="would write"):
        cluster._api._json("POST", CREATE, {}, {})
    assert server.seen == []


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ((201, {}), Accepted()),
        (status("403"), Unanswered("403", "create rayclusters.ray.io in namespace ml")),
        (status("401"), Unanswered("401", lost=True)),
        (status("400_dry_run"), Unanswered('400: admission webhook "side.example.com" does not support dry run')),
        ((429, {"kind": "Status", "message": "too many requests"}), Unanswered("429")),
        ((404, "404 page not found"), Unanswered("404")),
        ((302, "<html>log in</html>"), Unanswered("302")),
        ((201, "<html>log in</html>"), Unanswered("an answer in another shape than the API's")),
        (
            (422, {"kind": "Status", "details": {"causes": "?"}}),
            Unanswered("an answer in another shape than the API's"),
        ),
    ],
)
def test_dry_runs(answer: tuple[int, Any], verdict: Any, cluster: LiveCluster, server: Server) -> None:
    server.world.post(answer)
    assert cluster.dry_run(resource(), "ml") == verdict


def test_refusals(cluster: LiveCluster, server: Server) -> None:
    server.world.post(status("422"))
    refused = cluster.dry_run(resource(), "ml")
    assert isinstance(refused, Rejected)
    assert [path for path, _ in refused.causes] == ["spec.workerGroupSpecs[0].rayStartParams.num-gpus"]
    server.world.post(status("400_strict"))
    refused = cluster.dry_run(resource(), "ml")
    assert isinstance(refused, Rejected)
    assert [path for path, _ in refused.causes] == ["spec.headGroupSpec.ingressOptions"]
    server.world.post(status("403_webhook"))
    assert isinstance(cluster.dry_run(resource(), "ml"), Rejected)
    server.world.post(status("500"))
    failed = cluster.dry_run(resource(), "ml")
    assert isinstance(failed, Unanswered)
    assert failed.reason.startswith("500: Internal error occurred: failed calling webhook")


def test_a_name_is_one_part_of_the_path(cluster: LiveCluster, server: Server) -> None:
    assert cluster.namespace_phase("../../nodes") is None
    assert server.seen[0].path == "/api/v1/namespaces/..%2F..%2Fnodes"


def test_the_crd_comes_from_openapi_where_it_may_not_be_read(cluster: LiveCluster, server: Server) -> None:
    whole = cluster.definition("RayCluster")
    server.world.say(CRD, status("403"))
    published = cluster.definition("RayCluster")
    assert whole is not None
    assert not isinstance(whole, Unanswered)
    assert published is not None
    assert not isinstance(published, Unanswered)
    assert [*whole.versions] == [*published.versions] == ["v1"]
    assert whole.versions["v1"]["properties"]["spec"] == published.versions["v1"]["properties"]["spec"]
    server.world.say(OPENAPI, status("403"))
    assert cluster.definition("RayCluster") == Unanswered("403", "get customresourcedefinitions.apiextensions.k8s.io")
    assert cluster.definition("RayService") is None


def test_autoscalers(cluster: LiveCluster, server: Server) -> None:
    server.world.say(AUTOSCALER, status("403"))
    assert cluster.autoscalers() == Unanswered("403", "get configmaps in namespace kube-system")
    server.world.say(AUTOSCALER, (200, recorded("autoscaler_status")))
    assert cluster.autoscalers() == ("the Cluster Autoscaler",)
    server.world.with_karpenter()
    assert connect().autoscalers() == ("Karpenter's NodePool gpu",)
    server.world.say(NODE_POOLS, status("403")).say(AUTOSCALER, (404, {"kind": "Status", "reason": "NotFound"}))
    assert connect().autoscalers() == Unanswered("403", "list nodepools.karpenter.sh")


def test_lists_come_in_pages(cluster: LiveCluster, server: Server) -> None:
    server.pages = 2
    assert len(cluster.nodes()) == 3  # type: ignore[arg-type]
    assert [request.query.get("continue") for request in server.asked(NODES)] == [None, ["2"]]


def test_a_page_that_expired_is_asked_for_anew(cluster: LiveCluster, server: Server) -> None:
    server.pages, server.expires = 2, True
    server.world.say("expired", status("410"))
    assert len(cluster.nodes()) == 3  # type: ignore[arg-type]
    assert ["limit" in request.query for request in server.asked(NODES)] == [True, True, False]
    server.world.say(NODES, status("410"))
    assert cluster.nodes() == Unanswered("410")


LISTS: dict[str, Callable[[LiveCluster], Any]] = {
    NODES: lambda c: c.nodes(),
    DEPLOYMENTS: lambda c: c.operators(),
    DAEMON_SETS: lambda c: c.daemon_sets(),
    STORAGE_CLASSES: lambda c: c.storage_classes(),
    VOLUMES: lambda c: c.volumes(),
    CLAIMS: lambda c: c.claims("ml"),
    QUOTAS: lambda c: c.quotas("ml"),
    QUEUES: lambda c: c.queues("ml"),
    CRD: lambda c: c.definition("RayCluster"),
    ML: lambda c: c.namespace_phase("ml"),
}


@pytest.mark.parametrize("path", LISTS)
def test_every_question_survives_every_answer(path: str, cluster: LiveCluster, server: Server) -> None:
    """No permission, half an answer, a page of HTML, JSON of another shape: reasons, never exceptions."""
    question = LISTS[path]
    server.world.say(OPENAPI, status("403"))
    server.world.say(path, status("403"))
    assert question(cluster).needs.split()[0] in ("list", "get")
    server.world.say(path, status("401"))
    assert question(cluster) == Unanswered("401", lost=True)
    for odd in (
        "<html>",
        [],
        {},
        {"items": 1, "metadata": {}},
        {"items": [{}], "metadata": {}},
        {"spec": {"versions": [{}]}},
    ):
        server.world.say(path, (200, odd))
        assert question(cluster) == Unanswered("an answer in another shape than the API's"), odd
    server.broken[path] = BREAK_OFF
    assert question(cluster) == Unanswered("the connection broke off")


def test_time_outs(cluster: LiveCluster, server: Server) -> None:
    server.broken = {NODES: HANG, VOLUMES: HANG}
    assert cluster.nodes() == Unanswered("timed out after 0.3 s")
    assert not isinstance(cluster.storage_classes(), Unanswered)
    assert cluster.volumes() == Unanswered("timed out after 0.3 s", lost=True)  # the second one


def test_an_answer_that_only_drips_in(cluster: LiveCluster, server: Server) -> None:
    server.broken[NODES] = DRIP
    assert connect(timeout_s=0.1).nodes() == Unanswered("timed out after 0.1 s")


def test_an_answer_in_pieces(cluster: LiveCluster, server: Server) -> None:
    whole = cluster.nodes()
    server.broken[NODES] = CHUNKED
    assert cluster.nodes() == whole


def test_no_server_at_all(kubeconfig: Callable[[str], Path]) -> None:
    with socket.socket() as held:  # bound and not listening: nobody else can have the port
        held.bind(("127.0.0.1", 0))
        kubeconfig(f"http://127.0.0.1:{held.getsockname()[1]}")
        assert connect().nodes() == Unanswered("connection refused", lost=True)


def test_a_server_that_speaks_no_tls(server: Server, kubeconfig: Callable[[str], Path]) -> None:
    kubeconfig(server.url.replace("http:", "https:"))
    found = connect().nodes()
    assert isinstance(found, Unanswered)
    assert found.lost
    assert found.reason.startswith("TLS: ")


def test_an_error_of_our_own_is_not_swallowed() -> None:
    with pytest.raises(AttributeError):
        ApiServer(object(), 1).get("/", "", dict)


def test_without_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(InputError, match=r"kubernetes is not installed; pip install 'seatrial\[kubernetes\]'"):
        connect()


@pytest.mark.parametrize(
    "content", [None, "", "a: [", "[]", '{"contexts": []}', '{"current-context": "x", "contexts": []}']
)
def test_without_a_context(content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(InputError, match=f"no cluster to ask: .*expected a current context in {path}; set KUBECONFIG") as raised:  # fmt: skip
        connect()
    assert "\n" not in raised.value.line()


def test_a_kubeconfig_is_not_written_to(
    cluster: LiveCluster, kubeconfig: Callable[[str], Path], server: Server
) -> None:
    path = kubeconfig(server.url)
    before = path.read_text()
    connect().nodes()
    assert path.read_text() == before


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "m.yaml").write_text(changed({}))
    return tmp_path / "m.yaml"


def test_the_clean_world_over_http(file: Path, cluster: LiveCluster) -> None:
    checked = ask(run((file,), Settings(kuberay="1.7", server=True)), cluster)
    assert [f for f in checked.outcome.findings if f.severity != "info"] == []
    assert (checked.notes, checked.outcome.problems) == ((), [])


def test_what_could_not_be_asked_is_said(file: Path, cluster: LiveCluster, server: Server) -> None:
    server.world.say(NODES, status("403")).say(QUOTAS, status("403"))
    server.broken[VOLUMES] = HANG
    checked = ask(run((file,), Settings(kuberay="1.7", server=True)), cluster)
    assert set(checked.notes) == {
        "persistent volumes are unknown: timed out after 0.3 s",
        "nodes are unknown: 403 (needs list nodes)",
        "resource quotas of namespace ml are unknown: 403 (needs list resourcequotas in namespace ml)",
    }


def test_a_cluster_out_of_reach_is_a_problem_and_one_request(
    file: Path, kubeconfig: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        kubeconfig(url := f"http://127.0.0.1:{held.getsockname()[1]}")
        checked = ask(run((file,), Settings(kuberay="1.7", server=True)))
        with pytest.raises(SystemExit) as ended:
            main(["check", "--server", str(file)])
    line = f"server: dev at {url} does not answer: connection refused; expected a cluster that can be asked"
    assert [problem.line() for problem in checked.outcome.problems] == [line]
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"seatrial: --{line}\n"


def test_the_command(
    file: Path,
    cluster: LiveCluster,
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(file.parent)
    server.world.say(NODES, status("403")).say(QUOTAS, status("403")).lose(CLAIMS, "fsx-claim")
    with pytest.raises(SystemExit) as ended:
        main(["check", "--server", "--kuberay", "1.7", "m.yaml"])
    out = capsys.readouterr().out
    assert ended.value.code == 1
    assert "error pvc-missing: " in out
    assert "namespace ml has no claim fsx-claim; expected an existing claim" in out
    assert "nodes are unknown: 403 (needs list nodes)\n" in out


@pytest.mark.parametrize("form", ["json", "sarif", "junit", "github"])
def test_every_form_knows_the_rules(
    form: str, file: Path, cluster: LiveCluster, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.world.lose(CLAIMS, "fsx-claim")
    with pytest.raises(SystemExit):
        main(["check", "--server", "--select", "pvc-missing", "--format", form, str(file)])
    assert "pvc-missing" in capsys.readouterr().out


def test_the_command_without_a_cluster(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(file.parent / "none"))
    with pytest.raises(SystemExit) as ended:
        main(["check", "--server", str(file)])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("seatrial: --server: no cluster to ask: ")
