"""A release: from a tag to the files of dist/.

`__main__.py` is the command line, `build.py` makes the files, `bundle.py` those of a catalog of operators, `sbom.py`
says what is in the images, and `advisories.py` asks a list of advisories about the pins.
"""
