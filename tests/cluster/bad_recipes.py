"""Recipe caches that the API server must refuse."""

from tests.cluster.bad_object import Bad

STORE = {"url": "https://store.example/recipes"}
KEY = {"name": "reader", "key": "token"}
S3 = {"region": "eu-1", "credentialsSecretName": "reader"}

RECIPES = (
    Bad(
        "recipe_store_with_s3_address",
        "HTTPS endpoint",
        {"recipeCache": {"objectStore": {"url": "s3://bucket/recipes"}}},
    ),
    Bad(
        "recipe_store_with_a_password",
        "spec.recipeCache.objectStore.url in body should match",
        {"recipeCache": {"objectStore": {"url": "https://me:word@store.example/recipes"}}},
    ),
    Bad(
        "recipe_store_with_two_credentials",
        "s3 and tokenSecretRef",
        {"recipeCache": {"objectStore": {**STORE, "tokenSecretRef": KEY, "s3": S3}}},
    ),
    Bad(
        "recipe_store_with_token_over_http",
        "https:// if tokenSecretRef is set",
        {"recipeCache": {"objectStore": {"url": "http://store.example/recipes", "tokenSecretRef": KEY}}},
    ),
    Bad(
        "recipe_store_over_http",
        "recipes are code that pods run",
        {"recipeCache": {"objectStore": {"url": "http://store.example/recipes"}}},
    ),
    Bad(
        "recipe_store_with_a_private_key",
        "spec.recipeCache.objectStore.publicKey in body should match",
        {
            "recipeCache": {
                "objectStore": {
                    **STORE,
                    "publicKey": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                }
            }
        },
    ),
    Bad("cache_size_negative", "recipeCache.size in body should", {"recipeCache": {"size": -1}}),
    Bad(
        "storage_class_with_existing_claim",
        "leave it out with existingClaim",
        {"recipeCache": {"existingClaim": "team-recipes", "storageClassName": "fast"}},
    ),
)
