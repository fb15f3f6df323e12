"""The programs of a cluster, built from source, and the Debian packages that it needs.

build         builds the Go programs; tools: all programs in one folder
debian        installs Debian packages
prepare       builds programs and images concurrently; side_by_side: concurrent jobs
"""
