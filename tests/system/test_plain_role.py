"""Tenure as a role that owns its database and is no superuser, as on every managed PostgreSQL."""

import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from tests.support.command import Tenure
from tests.support.servers import OwnServers
from tests.support.workers import Worker


@pytest.mark.timeout(120)
def test_a_role_that_is_no_superuser_migrates_works_and_purges(tmp_path: Path) -> None:
    with OwnServers() as own:
        superuser = create_engine(own.database_url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with superuser.connect() as connection:
            connection.execute(text("create role plain login password 'plain'"))
            connection.execute(text("create database plain owner plain"))
        plain = make_url(own.database_url).set(username="plain", password="plain", database="plain")
        url = plain.render_as_string(hide_password=False)
        tenure = Tenure(tmp_path, TENURE_DATABASE_URL=url, TENURE_BROKER_URL=own.broker_url)
        assert tenure("migrate").returncode == 0
        with Worker(url, own.broker_url) as worker:
            worker.wait_ready()
            assert tenure.json("retention", "run", "--wait")["state"] == "succeeded"
            checks = json.loads(tenure("doctor", "--json").stdout)["checks"]
            assert [check for check in checks if check["state"] == "wrong"] == []
            worker.process.terminate()
            assert worker.exit_code() == 0
        with superuser.connect() as connection:
            connection.execute(text("revoke connect on database plain from public, plain"))
        assert tenure.refusal(1, "tasks", "list") == (
            "tenure: the role of TENURE_DATABASE_URL may not connect to its database: grant it CONNECT"
        )
