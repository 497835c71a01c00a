"""The tree: existing directories served as buckets, beside the programs that use them already."""
