"""A release: from a tag to the files of dist/.

`__main__.py` is the command line. `build.py` makes the files. `bundle.py` makes the files for catalogs of operators.
`sbom.py` lists the contents of the images. `advisories.py` looks up the pins in a list of advisories.
"""
