"""One builder per child: what server-side apply sends, and nothing that the operator does not own."""
