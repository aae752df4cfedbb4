"""The port to what runs on Kubernetes: the real client against an API server on this machine, well-behaved and not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.cli.main import main
from seatrial.errors import InputError
from seatrial.kube.cluster import LiveCluster
from seatrial.kube.collection import Collection
from seatrial.kube.connect import connect
from seatrial.kube.failures import Unanswered
from seatrial.launch.inspect.resource import look_up
from tests.support import kuberay_answers as k
from tests.support.manifests import changed
from tests.support.waiting import LIMIT_S
from tests.unit.server_answers.api_server import BREAK_OFF, HANG, Server, serve
from tests.unit.server_answers.world import World, status

pytestmark = pytest.mark.unit

Ask = Callable[[LiveCluster], Any]
SELECTOR = "ray.io/cluster=tune-x7k2p"
QUESTIONS: dict[str, tuple[str, Ask, str]] = {
    "pods": (k.PODS, lambda c: c.pods("ml", SELECTOR), "list pods in namespace ml"),
    "events": (k.EVENTS, lambda c: c.events("ml", "type=Warning"), "list events in namespace ml"),
    "rayjob": (k.JOB, lambda c: c.resource("RayJob", "ml", "tune"), "get rayjobs.ray.io in namespace ml"),
    "names": (k.JOBS, lambda c: c.names("RayJob", "ml"), "list rayjobs.ray.io in namespace ml"),
    "raycluster": (
        k.CLUSTER,
        lambda c: c.resource("RayCluster", "ml", "tune-x7k2p"),
        "get rayclusters.ray.io in namespace ml",
    ),
    "log": (k.LOG, lambda c: c.log("ml", "tune-x7k2p-gpu-worker-1", "ray-worker"), "get pods/log in namespace ml"),
}


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(World(answers=k.at_work())) as running:
        yield running


@pytest.fixture
def cluster(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveCluster:
    kubeconfig(tmp_path, monkeypatch, server.url)
    return connect(timeout_s=LIMIT_S)


def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": ns}}
        for name, ns in (("dev", "ml"), ("prod", "live"))
    ]
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "a-token"}}],
        "contexts": contexts,
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(content))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))


def test_a_pod_is_its_ray_container(cluster: LiveCluster, server: Server) -> None:
    pods = cluster.pods("ml", SELECTOR)
    assert not isinstance(pods, Unanswered)
    assert [(p.name, p.type, p.image, p.image_id) for p in pods][1] == (
        "tune-x7k2p-gpu-worker-1", "worker", k.TAG, k.IMAGE_ID,
    )  # fmt: skip
    (request,) = server.asked(k.PODS)
    assert request.query["labelSelector"] == [SELECTOR]
    assert request.headers["authorization"] == "Bearer a-token"
    assert {seen.method for seen in server.seen} == {"GET"}


@pytest.mark.parametrize("image_id", ["", "docker-pullable://repo@sha256:cd"])
def test_an_image_id_that_is_not_there_or_dockers(cluster: LiveCluster, server: Server, image_id: str) -> None:
    server.world.say(k.PODS, k.listed(k.pod("a", "worker", image_id)))
    (pod,) = cluster.pods("ml", SELECTOR)  # type: ignore[misc]
    assert pod.image_id == image_id.removeprefix("docker-pullable://")


def test_a_pending_pod_has_nothing_yet(cluster: LiveCluster, server: Server) -> None:
    waiting = k.pod("a", "worker")
    waiting["status"] = {"phase": "Pending"}
    del waiting["spec"]["nodeName"]
    server.world.say(k.PODS, k.listed(waiting))
    (pod,) = cluster.pods("ml", SELECTOR)  # type: ignore[misc]
    assert (pod.phase, pod.image_id, pod.node, pod.ready) == ("Pending", "", "", False)


def test_events_logs_and_names(cluster: LiveCluster, server: Server) -> None:
    first = cluster.events("ml", "type=Warning")[0]  # type: ignore[index]
    assert (first.about, first.reason, first.count) == ("Pod/tune-x7k2p-gpu-worker-1", "Unhealthy", 3)
    assert cluster.log("ml", "tune-x7k2p-gpu-worker-1", "ray-worker") == "line 1\nline 2\n"
    assert server.asked(k.LOG)[0].query == {"tailLines": ["200"], "container": ["ray-worker"]}
    assert cluster.names("RayJob", "ml") == ("tune",)
    assert cluster.resource("RayJob", "ml", "no") is None
    assert cluster.log("ml", "no") is None


@pytest.mark.parametrize(
    ("of", "path", "needs"),
    [
        (Collection("v1", "Node"), "/api/v1/nodes", "list nodes"),
        (Collection("v1", "ConfigMap", "ml"), "/api/v1/namespaces/ml/configmaps", "list configmaps in namespace ml"),
        (
            Collection("ray.io/v1", "RayJob", "../.."),
            "/apis/ray.io/v1/namespaces/..%2F../rayjobs",
            "list rayjobs.ray.io in namespace ../..",
        ),
        (
            Collection("storage.k8s.io/v1", "StorageClass"),
            "/apis/storage.k8s.io/v1/storageclasses",
            "list storageclasses.storage.k8s.io",
        ),
    ],
)
def test_a_kind_has_a_path_and_permissions(of: Collection, path: str, needs: str) -> None:
    assert (of.path, of.needs("list")) == (path, needs)
    assert of.member("a/b", "log") == f"{path}/a%2Fb/log"


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_survives_every_answer(name: str, cluster: LiveCluster, server: Server) -> None:
    path, ask, needs = QUESTIONS[name]
    whole = server.world.answers[path]
    server.world.say(path, status("401"))
    assert ask(cluster) == Unanswered("401", lost=True)
    server.world.say(path, status("403"))
    assert ask(cluster) == Unanswered("403", needs)
    server.world.say(path, status("500"))
    assert ask(cluster) == Unanswered("500")
    server.world.say(path, status("404"))
    assert ask(cluster) is None or ask(cluster) == Unanswered("404")
    server.world.say(path, whole)
    server.broken[path] = BREAK_OFF
    assert ask(cluster) == Unanswered("the connection broke off")


def test_a_server_that_does_not_answer(cluster: LiveCluster, server: Server) -> None:
    server.broken[k.PODS] = HANG
    assert connect(timeout_s=0.3).pods("ml", SELECTOR) == Unanswered("timed out after 0.3 s")
    server.ended.set()


def test_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig(tmp_path, monkeypatch, "http://127.0.0.1:9")
    assert connect().pods("ml", SELECTOR) == Unanswered("connection refused", lost=True)


def test_a_list_that_expires_between_its_pages_begins_anew(cluster: LiveCluster, server: Server) -> None:
    server.pages, server.expires = 2, True
    server.world.answers["expired"] = status("410")
    assert len(cluster.pods("ml", SELECTOR)) == 3  # type: ignore[arg-type]
    first, second, anew = server.asked(k.PODS)
    assert "continue" in second.query
    assert "continue" not in anew.query
    assert all(request.query["labelSelector"] == [SELECTOR] for request in (first, second, anew))


def test_contexts(cluster: LiveCluster) -> None:
    assert (cluster.namespace, connect("prod").namespace) == ("ml", "live")
    with pytest.raises(InputError, match="there is no context stage; expected one of dev, prod"):
        connect("stage")


def test_what_an_error_names_is_the_option_of_whoever_asks(
    cluster: LiveCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*words])
        assert ended.value.code == 2
        return capsys.readouterr().err

    (tmp_path / "m.yaml").write_text(changed({}))
    assert said("inspect", "rayjob/tune", "--context", "stage").startswith("seatrial: --context: there is no context")
    assert said("inspect", "tune").startswith('seatrial: RESOURCE: saw "tune"; expected rayjob/NAME')
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert said("check", "--server", str(tmp_path / "m.yaml")).startswith("seatrial: --server: no cluster to ask: ")
    with pytest.raises(
        InputError, match=f"^context: no cluster to ask: .*expected context dev in {tmp_path}/none; set"
    ):
        connect("dev")


def test_within_a_pod_it_is_that_cluster_unless_there_is_a_kubeconfig(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = {"token": "of-the-pod", "ca.crt": "none is needed without TLS", "namespace": "ml\n"}
    for name, content in account.items():
        (tmp_path / name).write_text(content)
    loader = "kubernetes.config.incluster_config"
    monkeypatch.setattr(f"{loader}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(f"{loader}.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr("seatrial.kube.connect._NAMESPACE", str(tmp_path / "namespace"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    own = connect()
    assert (own.title, own.namespace) == ("the pod's own cluster at https://127.0.0.1:6443", "ml")
    with pytest.raises(InputError, match="no cluster to ask"):
        connect("dev")
    kubeconfig(tmp_path, monkeypatch, server.url)
    assert connect().title == f"dev at {server.url}"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (tmp_path / "namespace").unlink()
    with pytest.raises(InputError, match=r"no cluster to ask: .*namespace"):
        connect()


def test_a_rayjob_looked_up(cluster: LiveCluster) -> None:
    found = look_up("rayjob/tune", "", "", cluster)
    assert found.job == "tune-abcde"
    assert found.seen["status"]["jobStatus"] == "RUNNING"
    assert {pod["image_id"] for pod in found.seen["pods"]} == {k.IMAGE_ID}
    assert [warning["reason"] for warning in found.seen["warnings"]] == ["Unhealthy"]
    assert any(line["name"] == "ray start" or line["part"].startswith("head") for line in found.seen["effective"])
    assert found.how_to_reach == (
        "`kubectl -n ml port-forward service/tune-x7k2p-head-svc 8265` and"
        " `seatrial inspect rayjob/tune -n ml --address http://localhost:8265` show the processes too"
    )
    assert look_up("rayclusters/tune-x7k2p", "ml", "", cluster).job == ""


def test_what_may_not_be_listed_is_said(cluster: LiveCluster, server: Server) -> None:
    for path in (k.PODS, k.EVENTS):
        server.world.say(path, status("403"))
    seen = look_up("rayjob/tune", "", "", cluster).seen
    assert seen["unknown"] == "the pods could not be listed: 403 (needs list pods in namespace ml)"
    assert seen["warnings"] == {"unknown": "403 (needs list events in namespace ml)"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tune", 'saw "tune"; expected rayjob/NAME or raycluster/NAME'),
        ("deployment/x", "expected rayjob/NAME or raycluster/NAME"),
        ("rayjob/tun", "no RayJob tun in namespace ml; did you mean tune?"),
        ("raycluster/zzz", "there are tune-x7k2p"),
    ],
)
def test_what_is_not_there(text: str, said: str, cluster: LiveCluster) -> None:
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        look_up(text, "", "", cluster)


def test_the_command_without_an_address_shows_pods(
    cluster: LiveCluster, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", "rayjob/tune"])
    out, error = capsys.readouterr()
    assert ended.value.code == 0
    assert f"image         {k.IMAGE_ID}" in out
    assert "Unhealthy" in out
    assert "port-forward" in error
    (record,) = in_tmp.glob("runs/*/record.json")
    assert json.loads(record.read_text())["observed"] is True


def test_the_command_says_in_one_line_what_is_not_allowed(
    cluster: LiveCluster, server: Server, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.world.say(k.JOB, status("401"))
    with pytest.raises(SystemExit) as ended:
        main(["inspect", "rayjob/tune"])
    assert ended.value.code == 2
    assert "does not tell: 401" in capsys.readouterr().err
    assert not (in_tmp / "runs").exists()
