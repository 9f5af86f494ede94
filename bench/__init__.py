"""`make bench`: each figure beside a comparator measured in the same run, on servers of its own."""
