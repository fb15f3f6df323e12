"""Write the golden files again, after a change of the rendering that is intended: `python -m tests.golden`.

Review the difference: each changed file is a change of pods or other children that users see.
"""

import sys

from tests.golden.files import GOLDEN, committed, rendered


def main() -> None:
    """Write the files that differ, delete the files of no case, and print the names of both."""
    found, before = rendered(), committed()
    for name in sorted(found.keys() | before.keys()):
        if found.get(name) == before.get(name):
            continue
        path = GOLDEN / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found[name]) if name in found else path.unlink()
        sys.stdout.write(f"{'wrote' if name in found else 'deleted'} {name}\n")


if __name__ == "__main__":
    main()
