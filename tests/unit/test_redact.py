"""Secrets are masked, measurements are not."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seatrial.events.redact import MASK, Redactor, is_secret_name

pytestmark = pytest.mark.unit

NO_ENVIRONMENT = Redactor({})


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "WANDB_API_KEY", "DB_PASSWORD",
     "PGPASSWORD", "GITHUB_PAT", "token", "api_key", "client-secret", "VAULT_SECRET_ID", "SIGNING_KEY",
     "RAY_AUTH_TOKEN", "GOOGLE_CREDENTIALS", "SESSION_COOKIE"],
)  # fmt: skip
def test_names_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["TOKENIZERS_PARALLELISM", "tokenizer", "tokens_per_second", "tokens_per_step", "eos_token", "pad_token_id", "PATH",
     "HOME", "PWD", "AWS_ACCESS_KEY_ID", "SSH_AUTH_SOCK", "GIT_AUTHOR_NAME", "KEYBOARD", "GOOGLE_PRIVATE_KEY_FILE",
     "model.embed_tokens.weight", "OMP_NUM_THREADS", "monkey"],
)  # fmt: skip
def test_names_of_no_secret(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("key AKIAIOSFODNN7EXAMPLE.", f"key {MASK}."),
        ("hf_" + "a1B2" * 8, MASK),
        ("ghp_" + "x" * 36, MASK),
        ("sk-proj-" + "A1b2" * 6, MASK),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", MASK),
        ("postgres://me:p4ss@db:5432/x", f"postgres://{MASK}@db:5432/x"),
        ("redis://:p4ss@cache:6379", f"redis://{MASK}@cache:6379"),
        ("Authorization: Bearer abcdefgh12345", f"Authorization: Bearer {MASK}"),
        ("authorization: Basic dXNlcjpwYXNz", f"authorization: Basic {MASK}"),
        ("token=abcdef123", f"token={MASK}"),
        ('{"access_token": "abcdef123", "n": 1}', f'{{"access_token": "{MASK}", "n": 1}}'),
        ("password: 12345678", f"password: {MASK}"),
        ("--api-key=abcdef123 --steps=20", f"--api-key={MASK} --steps=20"),
        ("export DB_PASSWORD='correct horse'", f"export DB_PASSWORD='{MASK} horse'"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter", f"{MASK}\nafter"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", MASK),
    ],
)
def test_well_known_shapes_and_assignments_are_masked(text, masked):
    assert NO_ENVIRONMENT.text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "tokens: 9100",
        "tokens_per_second=9.1k",
        "tokens_per_second=912345.6",
        "loss per token: 2.302585",
        "tokens: 1048576, loss: 2.31",
        "num_tokens=[1024,2048]",
        "tokenizer: Qwen/Qwen2.5-1.5B",
        "eos_token='<|endoftext|>'",
        "model.embed_tokens.weight: torch.float32",
        "step 20 of 200, 3.2e-5, sha256:" + "0f" * 32,
        "https://huggingface.co/Qwen/Qwen2.5-1.5B",
        "tcp://10.0.0.1:29500",
    ],
)
def test_measurements_and_names_are_left_alone(text):
    assert NO_ENVIRONMENT.text(text) == text


def test_values_of_the_environment_are_masked_wherever_they_stand():
    redactor = Redactor({"HF_TOKEN": "s3cr3t-v4lue", "HOME": "/home/me", "API_KEY": "short"}, {"DB_PASSWORD": "s3cr3t"})
    assert redactor.text("s3cr3t-v4lue at /home/me, s3cr3t, short") == f"{MASK} at /home/me, {MASK}, short"


def test_a_secret_of_several_lines_is_masked_line_by_line():
    redactor = Redactor({"TLS_KEY": "first-line\nsecond-line\n"})
    assert redactor.text("read second-line") == f"read {MASK}"


def test_a_number_of_tokens_is_no_secret_but_a_numeric_password_is():
    redactor = Redactor({"MAX_TOKENS": "1000000", "DB_PASSWORD": "12345678"})
    assert redactor.text("1000000 of 12345678") == f"1000000 of {MASK}"


def test_documents_keep_their_shape():
    document = {
        "env_vars": {"HF_TOKEN": "any", "OMP_NUM_THREADS": "1"},
        "tokens": "9007199254740993",
        "tokenizer": "bytes",
        "train_tokens": 123456,
        "steps": [1, 2.5, None, True, "token=abcdef123"],
    }
    assert NO_ENVIRONMENT.value(document) == {
        "env_vars": {"HF_TOKEN": MASK, "OMP_NUM_THREADS": "1"},
        "tokens": "9007199254740993",
        "tokenizer": "bytes",
        "train_tokens": 123456,
        "steps": [1, 2.5, None, True, f"token={MASK}"],
    }


secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="[]"), min_size=6, max_size=20)


@given(
    secret=secrets, before=st.text(max_size=30), after=st.text(max_size=30), name=st.sampled_from(["HF_TOKEN", "KEY"])
)
def test_a_secret_of_the_environment_never_comes_out(secret, before, after, name):
    assume(secret not in MASK)
    redactor = Redactor({name: secret})
    assert secret not in redactor.text(before + secret + after + secret)
    out = redactor.value({"log": [before + secret], secret: {"nested": (secret, after)}})
    assert secret not in str(out)


@given(st.text())
def test_masking_twice_changes_nothing_more(text):
    once = NO_ENVIRONMENT.text(text)
    assert NO_ENVIRONMENT.text(once) == once


@given(st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=20), max_size=4))
def test_a_redacted_document_is_still_json(document):
    assert json.loads(json.dumps(NO_ENVIRONMENT.value(document))).keys() == document.keys()


@pytest.mark.parametrize("part", ["--a-token-", "eyJaaaaaaaaaa-", "://a:", "secret", "-----BEGIN A ", "hf_", "bearer "])
def test_long_lines_take_no_long_time(part):
    """Logs hold progress bars and base64: a line of any length is read in about its length."""
    assert len(Redactor({}).text(part * (200_000 // len(part)))) > 0


def test_a_name_with_dashes_before_its_secret():
    assert (
        Redactor({}).text("run --hf-token=abcdefgh --x-api_key abcdefgh")
        == "run --hf-token=[redacted] --x-api_key abcdefgh"
    )
