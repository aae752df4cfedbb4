"""Image references: the grammar, the defaults, and that nothing but InputError comes out of any text."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.cli.main import main
from seatrial.errors import InputError
from seatrial.image.reference import Reference, is_digest, parse, pinned

pytestmark = pytest.mark.unit

D = "sha256:" + "0123456789abcdef" * 4
E = "sha256:" + "f" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ubuntu", Reference("docker.io", "library/ubuntu")),
        ("ubuntu:24.04", Reference("docker.io", "library/ubuntu", "24.04")),
        ("docker.io/ubuntu", Reference("docker.io", "library/ubuntu")),
        ("index.docker.io/ubuntu", Reference("docker.io", "library/ubuntu")),
        ("rayproject/ray:2.58.0-py313", Reference("docker.io", "rayproject/ray", "2.58.0-py313")),
        (f"public.ecr.aws/a-b/ray:v1@{D}", Reference("public.ecr.aws", "a-b/ray", "v1", D)),
        (f"ghcr.io/a/b/c__d@{D}", Reference("ghcr.io", "a/b/c__d", "", D)),
        ("localhost/x", Reference("localhost", "x")),
        ("localhost:5000/x", Reference("localhost:5000", "x")),
        ("localhost:5000", Reference("docker.io", "library/localhost", "5000")),
        ("host:5000/x:_T.a-g", Reference("host:5000", "x", "_T.a-g")),
        ("[::1]:5000/x", Reference("[::1]:5000", "x")),
        ("127.0.0.1/x", Reference("127.0.0.1", "x")),
        ("Host/x", Reference("Host", "x")),  # an upper-case letter makes the first part a host, as it does in Docker
        ("a---b/c.d_e", Reference("docker.io", "a---b/c.d_e")),
    ],
)
def test_what_a_text_names(text: str, expected: Reference) -> None:
    assert parse(text) == expected
    assert parse(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "saw no name; expected an image reference such as"),
        (":v1", 'saw no name in ":v1"'),
        ("Ubuntu", 'saw name part "Ubuntu" in "Ubuntu"; expected lower-case letters and digits'),
        ("x.io/team//x", 'saw name part "" in "x.io/team//x"'),
        ("x.io/", 'saw no name in "x.io/"'),
        ("a b", 'saw name part "a b"'),
        ("a_-b", 'saw name part "a_-b"'),
        ("ubuntu\n", 'saw name part "ubuntu\\n"'),
        ("x:", 'saw tag ""'),
        ("x:.v1", 'saw tag ".v1"'),
        ("x:" + "t" * 129, "expected 1 to 128 letters"),
        ("x@", 'saw digest ""'),
        ("x@sha256:abc", 'saw digest "sha256:abc"'),
        (f"x@{D.upper()}", "expected sha256: and 64 hexadecimal digits in lower case"),
        (f"x@{D}@{D}", "saw digest"),
        ("x@sha512:" + "0" * 128, "saw digest"),
        ("https://x.io/a", 'saw a URL in "https://x.io/a"'),
        ("x.io:0/a", 'saw registry "x.io:0"; expected host or host:port'),
        ("x.io:65536/a", 'saw registry "x.io:65536"'),
        ("x_y.io/a", 'saw registry "x_y.io"'),
        ("-x.io/a", 'saw registry "-x.io"'),
        ("[:::]:5000/a", 'saw registry "[:::]:5000"'),
        ("user:word@x.io/a", "saw digest"),
        ("sha256:abc", 'saw digest "sha256:abc"'),
        (D.upper().replace("SHA", "sha"), "expected sha256: and 64 hexadecimal digits in lower case"),
        ("sha512:" + "0" * 128, "saw digest"),
        (D, f'saw a digest without a name in "{D}"'),
        ("0" * 64, "saw an image id"),
        ("a/" * 127 + "ab", "saw a name of 256 characters"),
    ],
)
def test_what_is_wrong_with_a_text(text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        parse(text)
    line = str(error.value)
    assert len(line.splitlines()) == 1
    assert re.sub(r' in "[^;]*', "", words) in re.sub(r' in "[^;]*', "", line)


def test_pinning_keeps_the_spelling() -> None:
    assert pinned("ubuntu", D) == f"ubuntu:latest@{D}"
    assert pinned("ubuntu:24.04", D) == f"ubuntu:24.04@{D}"
    assert pinned(f"localhost:5000/x:v1@{E}", D) == f"localhost:5000/x:v1@{D}"
    assert pinned(f"x@{E}", D) == f"x@{D}"


def test_what_a_registry_is_asked_for() -> None:
    assert [parse(t).asked for t in ("x", "x:v1", f"x:v1@{D}")] == ["latest", "v1", D]
    assert str(parse(f"x:v1@{D}").unpinned) == "docker.io/library/x:v1"


HOSTS = st.from_regex(r"([a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?\.){1,2}[a-z]{2,5}(:[1-9][0-9]{0,3})?|localhost|\[::1\]:5000", fullmatch=True)  # fmt: skip
PATHS = st.from_regex(r"[a-z0-9]{1,5}((\.|_|__|-{1,3})[a-z0-9]{1,4}){0,2}(/[a-z0-9]{1,6}){0,3}", fullmatch=True)
TAGS = st.one_of(st.just(""), st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True))
DIGESTS = st.one_of(st.just(""), st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True))


@given(HOSTS, PATHS, TAGS, DIGESTS)
def test_every_reference_reads_back(host: str, path: str, tag: str, digest: str) -> None:
    text = f"{host}/{path}" + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
    found = parse(text)
    assert found == Reference(host, path, tag, digest)
    assert str(found) == text
    assert parse(pinned(text, D)).digest == D


@given(st.one_of(st.text(), st.text("aA1.:/@_-[]%# \n\0é", max_size=30), st.from_regex(r"[a-zA-Z0-9.:/@_\[\]-]{0,40}")))
@example("[" * 1000)
@example("a:" * 1000)
@example("²:5/x")
@example("x.io:²/a")
@example("\ud800")
def test_any_text_is_a_reference_or_an_input_error(text: str) -> None:
    seen: InputError | Reference
    try:
        seen = parse(text)
    except InputError as error:
        seen = error
    if isinstance(seen, Reference):
        assert parse(str(seen)) == seen
        assert not seen.digest or is_digest(seen.digest)
    else:
        assert len(str(seen).splitlines()) == 1
        assert str(seen).encode()


def test_neither_oras_nor_requests_is_loaded_before_a_registry_is_asked() -> None:
    code = "import sys, seatrial.cli.image, seatrial.image; print({'oras', 'requests'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_without_oras_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['oras'] = None\n"
        "from seatrial.cli.main import main; main(['image', 'resolve', 'localhost:1/x'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "seatrial: oras is not installed; pip install 'seatrial[registry]'\n"


@pytest.mark.parametrize(
    "command", [("same", f"x.invalid/a@{D}", f"y.invalid/b:v1@{D}"), ("same", D, f"x.invalid/a@{D}")]
)
def test_one_digest_is_one_image_without_a_registry(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["image", *command, "--platform", "linux/amd64"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"same: both are {D}, as they are written\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("same", D, "sha256:abc"), 'saw digest "sha256:abc"'),
        (("same", "x.invalid/a", f"y.invalid/b@{D}0"), "saw digest"),
        (("same", D, D, "--platform", "linux"), '--platform: saw "linux"; expected OS/ARCH'),
        (("resolve", "x.invalid/a", "--platform", "linux/amd64 "), '--platform: saw "linux/amd64 "'),
        (("resolve", "x.invalid/a", "--platform", "Linux/AMD64"), "--platform: saw"),
    ],
)
def test_mistakes_are_said_before_a_registry_is_asked(
    command: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["image", *command])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
