"""Recipe caches that the API server must refuse."""

from tests.cluster.bad_object import Bad

RECIPES = (
    Bad("cache_size_negative", "recipeCache.size in body should", {"recipeCache": {"size": -1}}),
    Bad(
        "storage_class_with_existing_claim",
        "leave it out with existingClaim",
        {"recipeCache": {"existingClaim": "team-recipes", "storageClassName": "fast"}},
    ),
)
