"""Calls of `gaudi-plan` in the test process, with a document on standard input and parsed output."""

import json
from typing import Any

from typer.testing import CliRunner, Result

from gaudi_operator.cli.plan.app import app

RUNTIME_CONFIG = {
    "version": "v1",
    "model": {"path": "/models", "servedNames": ["tiny"]},
    "engine": {"name": "sim"},
    "limits": {"maxModelLen": 256, "maxNumSeqs": 2, "maxNumBatchedTokens": 256},
}
LINEAR = {
    "version": "v1",
    "model": {"path": "/models", "servedNames": ["tiny"]},
    "engine": {"name": "sim"},
    "limits": {
        "maxModelLen": 2048,
        "maxNumSeqs": 4,
        "maxNumPrefillSeqs": 1,
        "maxNumBatchedTokens": 2048,
        "prefixCaching": False,
    },
    "bucketing": {"strategy": "linear", "decode": {"blocks": {"step": 256}}},
}
"""A RuntimeConfig whose plan has several buckets of both phases."""
INFERENCE = {
    "apiVersion": "inference.gaudi.dev/v1alpha1",
    "kind": "GaudiInference",
    "metadata": {"name": "llama"},
    "spec": {
        "model": {"source": {"persistentVolumeClaim": {"claimName": "models"}}, "maxModelLen": 256},
        "accelerator": {"generation": "gaudi2"},
        "engine": {"maxNumSeqs": 2, "chunkedPrefill": False},
    },
}


def plan(document: object, *arguments: str, command: str = "buckets") -> Result:
    text = document if isinstance(document, str | bytes) else json.dumps(document)
    return CliRunner().invoke(app, [command, "-f", "-", *arguments], input=text)


def answer(document: object, *arguments: str, command: str = "buckets") -> Any:
    result = plan(document, "-o", "json", *arguments, command=command)
    # Exit codes 3, 4 and 5 of a forecast are verdicts, not errors. Exit code 2 means that the document is invalid.
    assert result.exit_code == 0 or (command == "forecast" and result.exit_code in (3, 4, 5)), result.stderr
    return json.loads(result.stdout)


def refusal(document: object, *arguments: str, command: str = "buckets") -> str:
    """Return the error message of a command that refuses its input with exit code 2."""
    return one_sentence(plan(document, "-o", "json", *arguments, command=command))


def one_sentence(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    return result.stderr
