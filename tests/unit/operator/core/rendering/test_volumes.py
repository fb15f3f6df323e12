"""The mounts of a pod: model, adapters, recipes, and writable folders; one fact per test."""

from typing import Any

import pytest

from tests.unit.operator.core.rendered_pod import HUB, container, environment, mount, mounts, spec, volume
from tests.unit.operator.core.resources import CARD

HUB_AND_CLAIM = {**HUB, "cache": {"existingClaim": "shared"}}


def test_fetched_model_has_only_a_writable_volume() -> None:
    assert mount("/fetched", model=HUB) == {"name": "fetched", "mountPath": "/fetched"}
    assert volume("fetched", model=HUB) == {"name": "fetched", "emptyDir": {}}
    assert mount("/models", model=HUB) is None


def test_mounted_model_has_no_fetch_volume() -> None:
    assert mount("/fetched") is None


def test_hub_adapter_is_fetched_next_to_a_mounted_model() -> None:
    adapters = [{"name": "a", "source": {"huggingFace": {"repo": "a/b"}}}]
    fields = {"model": {"lora": {"adapters": adapters}}, "engine": {"name": "vllm"}}
    assert mount("/models", **fields) is not None
    assert mount("/fetched", **fields) is not None
    assert "HF_HUB_OFFLINE" not in environment(**fields)


def test_token_is_used_if_only_an_adapter_is_fetched() -> None:
    adapters = [{"name": "a", "source": {"huggingFace": {"repo": "a/b"}}}]
    model = {"lora": {"adapters": adapters}, "tokenSecretRef": {"name": "hub", "key": "token"}}
    found = environment(model=model, engine={"name": "vllm"})
    assert found["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}


def test_quantization_path_of_a_fetched_model_is_unset() -> None:
    inc = {"quantization": {"method": "inc", "configFile": "quant.json"}}
    vllm = {"engine": {"name": "vllm"}, "accelerator": CARD}
    assert environment(model=inc, **vllm)["QUANT_CONFIG"] == "/models/tiny/quant.json"
    assert "QUANT_CONFIG" not in environment(model={**HUB, **inc}, **vllm)


def test_pods_share_models_fetched_into_a_pvc() -> None:
    assert volume("fetched", model=HUB_AND_CLAIM)["persistentVolumeClaim"] == {"claimName": "shared"}


def test_new_pvc_is_writable_by_the_pods_user() -> None:
    found = spec(model=HUB_AND_CLAIM, pod={"runAsUser": 1234})["securityContext"]
    assert (found["fsGroup"], found["fsGroupChangePolicy"]) == (1234, "OnRootMismatch")


def test_local_folder_has_the_requested_limit() -> None:
    limited = {**HUB, "cache": {"sizeLimit": "40Gi"}}
    assert volume("fetched", model=limited)["emptyDir"] == {"sizeLimit": "40Gi"}
    assert "fsGroup" not in spec(model=limited)["securityContext"]


def test_mounted_model_is_read_only() -> None:
    assert mount("/models") == {"name": "model", "mountPath": "/models", "readOnly": True}


def test_model_secret_is_a_reference() -> None:
    secret = {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert environment(engine={"env": [{"name": "HF_TOKEN", "valueFrom": secret}]})["HF_TOKEN"] == secret


@pytest.mark.parametrize("path", ["/tmp", "/cache", "/dev/shm"])
def test_writable_folder_has_a_volume(path: str) -> None:
    mount = next(each for each in container()["volumeMounts"] if each["mountPath"] == path)
    assert "emptyDir" in volume(mount["name"])
    assert "readOnly" not in mount


@pytest.mark.parametrize(("ranks", "size"), [(1, "1024Mi"), (2, "2048Mi")])
def test_shared_memory_grows_with_the_ranks(ranks: int, size: str) -> None:
    found = volume("shared-memory", accelerator=CARD, parallelism={"tensor": ranks})
    assert found["emptyDir"]["sizeLimit"] == size


def test_shared_memory_has_the_requested_size() -> None:
    found = volume("shared-memory", pod={"sharedMemorySize": "2Gi"})
    assert found["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}


def test_pvc_is_mounted_read_only() -> None:
    assert volume("model")["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}


def test_image_volume_holds_the_model() -> None:
    source = {"persistentVolumeClaim": None, "ociImage": {"reference": "model:1"}}
    assert volume("model", model={"source": source})["image"] == {"reference": "model:1", "pullPolicy": "IfNotPresent"}


def test_missing_host_path_does_not_block_the_pod() -> None:
    source = {"persistentVolumeClaim": None, "hostPath": {"path": "/models"}}
    assert volume("model", model={"source": source})["hostPath"] == {"path": "/models"}


ADAPTERS = [
    {"name": "sql", "source": {"persistentVolumeClaim": {"claimName": "adapters", "path": "sql"}}},
    {"name": "code", "source": {"ociImage": {"reference": "code:1"}}},
]


def test_each_adapter_is_mounted_read_only() -> None:
    vllm = {"engine": {"name": "vllm"}, "model": {"lora": {"adapters": ADAPTERS}}}
    assert volume("adapter-0", **vllm)["persistentVolumeClaim"] == {"claimName": "adapters", "readOnly": True}
    assert volume("adapter-1", **vllm)["image"]["reference"] == "code:1"
    assert mounts(**vllm)["adapter-0"] == {"name": "adapter-0", "mountPath": "/adapters/0", "readOnly": True}


def test_shared_memory_of_one_rank_is_one_gib() -> None:
    assert volume("shared-memory")["emptyDir"] == {"medium": "Memory", "sizeLimit": "1024Mi"}


def test_shared_memory_of_eight_ranks_is_five_gib() -> None:
    found = volume("shared-memory", accelerator=CARD, engine={"name": "vllm"}, parallelism={"tensor": 8})
    assert found["emptyDir"]["sizeLimit"] == "5120Mi"


def test_requested_shared_memory_is_used() -> None:
    assert volume("shared-memory", pod={"sharedMemorySize": "16Gi"})["emptyDir"]["sizeLimit"] == "16Gi"


RECIPES: dict[str, Any] = {"recipeCache": {}}
SEED = {"recipeCache": {"ociImage": {"reference": "recipes:1", "path": "llama"}}}


def test_shared_recipes_have_a_separate_mount() -> None:
    assert volume("recipes", **RECIPES)["persistentVolumeClaim"] == {"claimName": "tiny-recipes"}
    assert mount("/recipes", **RECIPES) == {"name": "recipes", "mountPath": "/recipes"}
    assert volume("cache", **RECIPES) == {"name": "cache", "emptyDir": {}}


def test_pods_sharing_recipes_mount_the_kept_revisions() -> None:
    assert volume("kept-revisions", **RECIPES)["configMap"] == {"name": "tiny-recipes", "optional": True}
    assert mount("/etc/gaudi-revisions", **RECIPES) is not None
    label = {"fieldPath": "metadata.labels['inference.gaudi.dev/revision']"}
    assert environment(**RECIPES)["GAUDI_REVISION"] == {"fieldRef": label}


def test_unshared_recipes_need_no_pvc() -> None:
    assert mount("/recipes") is None
    assert mount("/etc/gaudi-revisions") is None
    assert "GAUDI_REVISION" not in environment()


def test_shared_recipes_are_writable_by_the_pods_user() -> None:
    assert spec(**RECIPES, pod={"runAsUser": 1234})["securityContext"]["fsGroup"] == 1234


def test_recipe_image_is_mounted_read_only() -> None:
    assert volume("seed-recipes", **SEED)["image"] == {"reference": "recipes:1", "pullPolicy": "IfNotPresent"}
    assert mount("/recipe-image", **SEED) == {"name": "seed-recipes", "mountPath": "/recipe-image", "readOnly": True}
    assert mount("/recipe-image", **RECIPES) is None
