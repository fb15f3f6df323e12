"""Revisions refused after an installation or class has changed, with the exact messages."""

from dataclasses import replace

from gaudi_operator.api.v1alpha1.inference_class import GaudiInferenceClass
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.admission.spec_checks import check_groups_served, check_revision_allowed, first_spec_violation
from gaudi_operator.core.classes import NO_CLASS, ResolvedClass
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.resources import ANY_HOST_PATH, DEFAULTS, inference, resource

WITHOUT_SIMULATION = replace(DEFAULTS, allow_simulation=False)
SIMULATED = inference(engine={"name": "sim"})


def policy(platform: ResolvedClass) -> PodPolicy:
    return PodPolicy(SIMULATED, ANY_HOST_PATH, platform)


def test_simulated_revision_is_refused_after_simulation_is_disallowed() -> None:
    revision = choose_desired_revision(SIMULATED, (), DEFAULTS)
    assert check_revision_allowed(revision, policy(NO_CLASS), WITHOUT_SIMULATION) == Problem(
        "SimulationNotAllowed",
        f"Revision {revision.name} has the sim engine, which this installation does not allow. The operator creates "
        "no more pods of this revision. Change the spec, or install the operator with allowSimulation.",
    )


def test_refusal_by_a_class_names_the_remedy() -> None:
    revision = choose_desired_revision(SIMULATED, (), DEFAULTS)
    gold = ResolvedClass(
        "gold", GaudiInferenceClass.model_validate(gaudi_class(limits={"images": ["other.test/"]})).spec
    )
    found, cause = check_revision_allowed(revision, policy(gold), DEFAULTS), policy(gold).find_violation(revision)
    assert cause is not None
    assert found == Problem(
        cause.reason,
        f"The operator creates no more pods of revision {revision.name}: {cause.message} To run "
        "another revision, change the spec.",
    )


def test_group_without_its_controller_names_the_missing_component() -> None:
    spec = {"parallelism": {"tensor": 8, "nodes": 2}}
    observed = Observed(resource(**spec), groups_served=False)
    assert check_groups_served(inference(**spec), observed) == Problem(
        "LeaderWorkerSetMissing",
        "spec.parallelism.nodes is 2, but this cluster has no LeaderWorkerSet API. Install the LeaderWorkerSet "
        "controller (lws.sigs.k8s.io), version 0.9 or newer. The operator detects the API within seconds.",
    )


def test_group_with_its_controller_is_accepted() -> None:
    spec = {"parallelism": {"tensor": 8, "nodes": 2}}
    assert check_groups_served(inference(**spec), Observed(resource(**spec), groups_served=True)) is None


def test_spec_is_checked_again_after_an_installation_change() -> None:
    asked = inference(engine={"name": "sim"})
    assert first_spec_violation(asked, DEFAULTS) is None
    assert first_spec_violation(asked, WITHOUT_SIMULATION) == Problem(
        "SimulationNotAllowed",
        "spec.engine.name: sim is not allowed by this installation, because the sim engine answers without a model. "
        "Use vllm, or install the operator with allowSimulation.",
    )
