"""`tenure demo`: the main job on real data, with a worker killed half-way. Everything it shows is read from the database."""
