"""For the tests of your own kinds: `plugin` has the pytest fixtures, `database` what they are made of.

Importing this package imports nothing else: pytest does so in every project that has Tenure installed.
"""
