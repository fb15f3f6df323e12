"""Images for the pods of a cluster.

images          builds images with buildah
build_settings  the machine's package settings for these builds
archive         small images from files of this machine
"""
