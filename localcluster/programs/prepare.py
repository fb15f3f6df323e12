"""The preparation of a local cluster in two concurrent jobs: one compiles programs, the other builds images."""

from collections.abc import Iterable, Mapping
from functools import partial

from localcluster.images import images
from localcluster.programs import build, debian
from localcluster.programs.build import Program
from localcluster.programs.side_by_side import Job, side_by_side

PROGRAMS = (build.kubernetes, build.containerd, build.coredns, build.helm)


def prepare(wanted: Mapping[str, str], programs: Iterable[Program] = PROGRAMS) -> None:
    """Build the missing `programs` and the images `wanted` (target of the Dockerfile -> name).

    Raises LocalClusterError with the first failure.
    """
    side_by_side([Job(program, program.seconds_left) for program in programs], _image_jobs(wanted))


def _image_jobs(wanted: Mapping[str, str]) -> list[Job]:
    if not wanted:
        return [Job(partial(debian.require, debian.NODE))]
    jobs = [Job(partial(debian.require, debian.NODE | debian.IMAGES))]
    changed = {target: tag for target, tag in wanted.items() if not images.is_made(target, tag)}
    if changed:
        there = images.built()
        jobs.append(Job(images.make_base_image, 0 if images.BASE_IMAGE in there else images.BASE_SECONDS))
        for target, tag in changed.items():
            seconds = 0 if tag in there else images.first_seconds(target)
            jobs.append(Job(partial(images.build_image, target, tag), seconds))
        jobs.append(Job(images.remove_replaced_images))
    return jobs
