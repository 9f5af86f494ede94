# One image for migrate, worker, beat and Flower; the command says which. It holds no setting and no secret.
FROM python:3.13-slim AS build
RUN python -m pip install --no-cache-dir uv && python -m venv /opt/tenure
WORKDIR /src
COPY pyproject.toml setup.py README.md requirements.lock ./
COPY platform platform
COPY workers workers
COPY beat beat
COPY migrations migrations
# The lock also covers tests and benches: as a constraint it pins and verifies only what the product needs.
RUN uv pip install --python /opt/tenure/bin/python --no-cache --constraint requirements.lock .

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin tenure
COPY --from=build /opt/tenure /opt/tenure
# TENURE_HOME holds the health files here: /tmp/healthcheck/health-worker, /tmp/healthcheck/health-beat.
ENV PATH=/opt/tenure/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TENURE_HOME=/tmp/healthcheck
WORKDIR /tmp
USER tenure
STOPSIGNAL SIGTERM
# Exec form: `tenure worker` becomes Celery, so the signal reaches it.
ENTRYPOINT ["tenure"]
CMD ["--help"]
