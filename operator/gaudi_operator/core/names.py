"""All names and labels that the operator writes into a cluster. Tests import the same constants."""

FIELD_MANAGER = "gaudi-operator"
GATE = "inference.gaudi.dev/warmed-up"
CONTAINER = "runtime"

CARDS_VARIABLE, NO_CARDS = "HABANA_VISIBLE_DEVICES", "none"
"""The variable by which Intel's container runtime selects cards, and its value for no cards."""

RECIPE_PVC_SUFFIX = "-recipes"

NAME_LABEL = "inference.gaudi.dev/name"
REVISION_LABEL = "inference.gaudi.dev/revision"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "gaudi-operator"
OPERATOR_POD_LABELS = {"app.kubernetes.io/name": "gaudi-operator"}
NAMESPACE_LABEL = "kubernetes.io/metadata.name"

GROUP_NAME_LABEL = "leaderworkerset.sigs.k8s.io/name"
GROUP_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
WORKER_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
GROUP_SIZE_ANNOTATION = "leaderworkerset.sigs.k8s.io/size"
"""Labels and annotations that the LeaderWorkerSet controller writes on the pods of a group. The leader has index 0."""

PLAN_HASH_ANNOTATION = "inference.gaudi.dev/plan-hash"
RESTARTED_AT_ANNOTATION = "inference.gaudi.dev/restarted-at"
FAILURE_ANNOTATION = "inference.gaudi.dev/failure"
FORMER_NUMBERS_ANNOTATION = "inference.gaudi.dev/former-numbers"
CONTROLLER_ANNOTATION = "inference.gaudi.dev/controller"
"""The annotation of a ControllerRevision with the installation that last ran this revision."""
IN_PLACE_ANNOTATION = "inference.gaudi.dev/in-place"
DESIRED_ANNOTATION = "inference.gaudi.dev/desired-replicas"
"""The annotation with the replicas to restore after the back-off of an older revision."""
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
REMOVED_FIRST = -(2**31)
"""The deletion cost of a pod to remove first. Users are unlikely to set this lowest possible value."""
APPLIED_HASH_ANNOTATION = "inference.gaudi.dev/applied-hash"
