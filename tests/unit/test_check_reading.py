"""Reading manifests: kubectl's scalars, places, limits, and whatever is no YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.check import inputs
from seatrial.check.reading import MAX_DOCUMENT_BYTES, MAX_NODES, YamlDocument, documents, placeholder
from seatrial.check.values import Value, whole
from seatrial.errors import InputError
from seatrial.kube.apimachinery import quantity

pytestmark = pytest.mark.unit


def read(text: str | bytes) -> list[YamlDocument | InputError]:
    return list(documents(text if isinstance(text, bytes) else text.encode(), "m.yaml"))


def plain(text: str) -> object:
    [document] = read(text)
    assert isinstance(document, YamlDocument), document
    return document.root.plain() if document.root else None


def error(text: str | bytes) -> str:
    [problem] = [item for item in read(text) if isinstance(item, InputError)]
    return problem.line()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("Off", False), ("y", True), ("~", None), ("null", None), ("", None),
        ("010", 8), ("0o17", 15), ("0x1F", 31), ("0b101", 5), ("1_000", 1000), ("-5", -5), ("09", 9.0),
        ("1e3", 1000.0), (".5", 0.5), ("1.", 1.0), ("2001-01-01", "2001-01-01"), ("12:30:45", "12:30:45"),
        ("'yes'", "yes"), ('"4"', "4"), ("4Gi", "4Gi"), ("1.2.3", "1.2.3"), ("+", "+"), ("-", [None]), ("!!str 5", "5"),
    ],
)  # fmt: skip
def test_scalars_are_read_as_kubectl_reads_them(text: str, value: object) -> None:
    assert plain(f"a: {text}" if text != "-" else "-") == ({"a": value} if text != "-" else value)


def test_places_count_from_one_and_go_on_through_documents() -> None:
    first, second = read("# c\na:\n  b: 1\n---\n# d\nc: {d: 2}\n")
    assert isinstance(first, YamlDocument)
    assert isinstance(second, YamlDocument)
    value = Value.of(second.root, "m.yaml", second.line).at("c", "d")
    assert (value.line, value.column, value.field) == (6, 5, "c.d")
    assert Value.of(first.root, "m.yaml")["a"]["b"].line == 3


def test_an_absent_value_stands_where_its_parent_stands() -> None:
    [document] = read("a:\n  b: 1\n")
    assert isinstance(document, YamlDocument)
    missing = Value.of(document.root, "m.yaml").at("a", "x", "y")
    assert not missing
    assert missing.line == 1
    assert missing.field == "a.x.y"


def test_merge_keys_and_aliases() -> None:
    assert plain("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: *x\n") == {
        "x": {"a": 1, "b": 2},
        "y": {"a": 1, "b": 3},
        "z": {"a": 1, "b": 2},
    }


def test_one_bad_document_does_not_hide_the_others() -> None:
    first, bad, last = read("a: 1\n---\nb: [1\n---\nc: 2\n")
    assert isinstance(first, YamlDocument)
    assert isinstance(bad, InputError)
    assert bad.place is not None
    assert bad.place.line in (3, 4)
    assert isinstance(last, YamlDocument)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2\n", ("m.yaml:2:1", "a stands twice, first on line 1")),
        ("a:\n\t- b\n", ("m.yaml:2:1", "not tabs")),
        ("a: {{ .Values.x }}\n", ("m.yaml:1:1", "helm template")),
        ("{{- if .Values.x }}\na: 1\n{{- end }}\n", ("helm template",)),
        ("a: b: c\n", ("m.yaml:1", "not YAML")),
        ("a: *nowhere\n", ("m.yaml:1:4", "alias *nowhere names nothing")),
        ("a: &a [*a]\n", ("alias *a names nothing",)),
        ("a: !vault x\n", ("tag !vault",)),
        ("? [a]\n: b\n", ("a key that is a list",)),
        ('a: "\\UFFFFFFFF"\n', ("m.yaml:1", "not YAML")),
        (b"\x7fELF\x00\x01", ("is binary",)),
        (b"a: \xff\n", ("m.yaml:1", "0xff is not UTF-8")),
        (b"a: \x07\n", ("m.yaml:1", "control character")),
        ("[" * 200, ("m.yaml:1:101", "nested too deeply")),
        ("a: 1\n" + "x" * (MAX_DOCUMENT_BYTES + 1), ("a document is too large",)),
    ],
)
def test_bad_input_is_one_line_with_its_place(text: str | bytes, words: tuple[str, ...]) -> None:
    line = error(text)
    assert "\n" not in line
    assert all(word in line for word in words), line


def test_an_alias_bomb_is_refused_and_never_expanded() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert f"at most {MAX_NODES} values" in error("\n".join(levels))


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfa: 1\n", b"a: 1\r\n", b"---\na: 1\n...\n", b"%YAML 1.1\n---\na: 1\n"])
def test_bom_crlf_markers_and_directives(text: bytes) -> None:
    [document] = [item for item in read(text) if not isinstance(item, YamlDocument) or item.root]
    assert isinstance(document, YamlDocument)
    assert document.root is not None
    assert document.root.plain() == {"a": 1}


@given(st.binary(max_size=300))
def test_any_bytes_give_documents_or_errors(raw: bytes) -> None:
    for item in read(raw):
        assert isinstance(item, YamlDocument | InputError)


@given(st.text(alphabet="ab:-{}[]&*!|>'\"%@#?, \n\t<$", max_size=80))
def test_any_yaml_like_text_gives_documents_or_errors(text: str) -> None:
    for item in read(text):
        assert isinstance(item, YamlDocument | InputError)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("500m", 0.5), ("16Gi", 16 << 30), ("16G", 16 * 10**9), ("1e3", 1000), ("1E", 10**18), ("2Ei", 2 << 60), (".5", 0.5), ("-1", -1), ("12e-1", 1.2)],
)  # fmt: skip
def test_quantities(text: str, number: float) -> None:
    found = quantity(text)
    assert found is not None
    assert float(found) == pytest.approx(number)


@pytest.mark.parametrize("text", ["16GB", "16 Gi", "4 cores", "", "Gi", "1.2.3", "1ki", "0x10", "٣", "1_0"])
def test_what_is_no_quantity(text: str) -> None:
    assert quantity(text) is None


def test_whole_rounds_up_as_go_does() -> None:
    assert [whole(q) for q in map(quantity, ("200m", "1", "1500m", "0")) if q is not None] == [1, 1, 2, 0]


@pytest.mark.parametrize("text", ["${X}", "$X", "$(X)", "{{ x }}", "<your-alias>/x", "PLACEHOLDER_IMAGE", "CHANGE_ME", "__X__", "@TAG@", "a${X}b"])  # fmt: skip
def test_placeholders(text: str) -> None:
    assert placeholder(text)


@pytest.mark.parametrize("text", ["", "a$", "1<2", "a_b", "x@sha256:ab", "MERGE", "a > b", "USER", "__init__"])
def test_what_is_no_placeholder(text: str) -> None:
    assert not placeholder(text)


def test_a_trial_on_standard_input_is_asked_for_by_name() -> None:
    with pytest.raises(InputError, match="<stdin>: a trial; expected a file that is named"):
        inputs.trial(Path(inputs.STDIN))
