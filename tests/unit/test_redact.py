from __future__ import annotations

import shlex

import pytest

from stepscope.redact import is_secret_name, redact


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("train.py --api-key hunter2 --lr 0.1", "train.py --api-key *** --lr 0.1"),
        ("train.py --api-key=hunter2", "train.py --api-key=***"),
        ("train.py --api_key='a b c'", "train.py '--api_key=***'"),
        ("java -Dtoken=hunter2 -Dname=x", "java '-Dtoken=***' -Dname=x"),
        ("train.py --password hunter2", "train.py --password ***"),
        ("train.py --db-passwd hunter2", "train.py --db-passwd ***"),
        ("train.py -token hunter2", "train.py -token ***"),
        ("train.py --hf-token hunter2", "train.py --hf-token ***"),
        ("train.py --clientSecret hunter2", "train.py --clientSecret ***"),
        ("train.py --auth hunter2", "train.py --auth ***"),
        ("train.py --use-auth-token --lr 3", "train.py --use-auth-token --lr 3"),
        ("env WANDB_API_KEY=hunter2 python x.py", "env 'WANDB_API_KEY=***' python x.py"),
        ("env AWS_SECRET_ACCESS_KEY=a/b+c= x", "env 'AWS_SECRET_ACCESS_KEY=***' x"),
        ("x +wandb.api_key=hunter2 model.dim=3", "x '+wandb.api_key=***' model.dim=3"),
        ("x postgres://me:hunter2@db/x?y=1", "x postgres://me:***@db/x?y=1"),
        ("x https://0123456789abcdef0123@host/x", "x 'https://***@host/x'"),
        ("x ssh://git@github.com/a/b", "x ssh://git@github.com/a/b"),
        ("x 'https://h/x?token=hunter2&y=1'", "x 'https://h/x?token=***&y=1'"),
        ("curl -H 'Authorization: Bearer hunter2'", "curl -H 'Authorization: Bearer ***'"),
        ("""python -c 'login(token="hunter2", x=1)'""", """python -c 'login(token="***", x=1)'"""),
        ("""x '{"api_key": "hunter2", "a": 1}'""", """x '{"api_key": "***", "a": 1}'"""),
        ("""x '{"api_key": "a hunter2"}'""", """x '{"api_key": "***"}'"""),
        ("""python -c "e['HF_TOKEN']='hunter2'" """, """python -c "e['HF_TOKEN']='***'" """),
        ("x --wandb-key hunter2 --db-pass hunter2", "x --wandb-key *** --db-pass ***"),
        (
            "x 'https://s3/x?X-Amz-Signature=hunter2&y=1'",
            "x 'https://s3/x?X-Amz-Signature=***&y=1'",
        ),
        ("x postgres://me:p@hunter2@db/x", "x postgres://me:***@db/x"),
        ("curl -H 'Authorization: abc hunter2'", "curl -H 'Authorization: ***'"),
        ("x --pat hunter2", "x --pat ***"),
        ("x AKIAIOSFODNN7EXAMPLE", "x ***"),
        ("x --key hf_abcdefghijklmnopqrstuvwxyz", "x --key ***"),
        ("x ghp_abcdefghijklmnopqrstuvwxyz0123", "x ***"),
    ],
)
def test_a_value_that_looks_secret_is_replaced(given: str, kept: str) -> None:
    assert redact(shlex.split(given)) == shlex.split(kept)
    assert "hunter2" not in " ".join(redact(shlex.split(given)))


@pytest.mark.parametrize(
    "words",
    [
        "train.py --tokenizer bert --max-tokens 512 --author me",
        "train.py --num_query_token 32 --max_token=4096 --class_token true --img_token <img>",
        "train.py --pat 3 --exp sk-resnet50-imagenet-with-a-long-name",
        "train.py --pad_token <pad> --eos-token </s> --key-dim 64",
        "train.py --num_tokens=512 lr:0.1 data/x.bin:3 https://host:8080/x",
        "-m torch.distributed.run --rdzv_endpoint localhost:29500 train.py",
        "python -c x=1;y=[2]",
    ],
)
def test_everything_else_stays(words: str) -> None:
    assert redact(words.split()) == words.split()


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "PGPASSWORD", "aws.credentials", "X-Auth", "PAT"])
def test_names_of_secrets_are_known_however_they_are_written(name: str) -> None:
    assert is_secret_name(name)


def test_a_long_word_takes_no_longer_than_reading_it() -> None:
    for piece in ("a", "a.", "a=", "://a", "a:a@", "token=", "eyJ", "sk-"):
        word = piece * (100_000 // len(piece))
        assert len(redact([word])) == 1
