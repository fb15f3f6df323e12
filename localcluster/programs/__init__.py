"""The programs of a cluster, built from source, and the Debian packages that the cluster needs.

build         builds the Go programs
tools         links all programs into one folder
debian        installs Debian packages
prepare       builds programs and images concurrently
side_by_side  runs concurrent jobs
"""
