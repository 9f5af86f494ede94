"""What retention deletes: one module per noun, each answering page by page, and the same pages for a dry run."""
