"""The preparation of a local cluster in two concurrent jobs: one compiles programs, the other builds images."""

from collections.abc import Iterable, Mapping
from functools import partial

from localcluster.images import images
from localcluster.programs import build, debian
from localcluster.programs.build import Program
from localcluster.programs.side_by_side import Job, run_lanes

PROGRAMS = (build.kubernetes, build.containerd, build.coredns, build.helm)


def prepare(image_tags: Mapping[str, str], programs: Iterable[Program] = PROGRAMS) -> None:
    """Build the missing `programs` and the images `image_tags` (target of the Dockerfile -> name).

    Raises LocalClusterError with the first failure.
    """
    run_lanes([Job(program, program.seconds_left) for program in programs], _image_jobs(image_tags))


def _image_jobs(image_tags: Mapping[str, str]) -> list[Job]:
    if not image_tags:
        return [Job(partial(debian.require, debian.NODE))]
    jobs = [Job(partial(debian.require, debian.NODE | debian.IMAGES))]
    outdated_tags = {target: tag for target, tag in image_tags.items() if not images.is_up_to_date(target, tag)}
    if outdated_tags:
        built_images = images.list_built_images()
        jobs.append(Job(images.make_base_image, 0 if images.BASE_IMAGE in built_images else images.BASE_SECONDS))
        for target, tag in outdated_tags.items():
            seconds = 0 if tag in built_images else images.first_build_seconds(target)
            jobs.append(Job(partial(images.build_image, target, tag), seconds))
        jobs.append(Job(images.remove_replaced_images))
    return jobs
