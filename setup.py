"""Only what pyproject.toml cannot say: `migrations/` travels in the wheel as the package `tenure._migrations`."""

from setuptools import find_packages, setup

ROOTS = ("platform", "workers", "beat")
found = {name: root for root in ROOTS for name in find_packages(root)}

setup(
    packages=[*found, "tenure._migrations", "tenure._migrations.versions"],
    package_dir={
        **{name: f"{root}/{name}" for name, root in found.items() if "." not in name},
        "tenure._migrations": "migrations",
    },
)
