# The hub alone: Redis is another container (compose.yaml). Nothing of the build is in the image.
FROM python:3.13-slim AS build
WORKDIR /src
RUN pip install --no-cache-dir build
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY server server
COPY client client
RUN python -m build --wheel --outdir /dist
COPY constraints.txt ./
RUN python -m venv /opt/sessionwire \
    && /opt/sessionwire/bin/pip install --no-cache-dir -c constraints.txt "$(echo /dist/*.whl)[server]"

FROM python:3.13-slim
LABEL org.opencontainers.image.title="sessionwire" \
      org.opencontainers.image.description="The event bus for AI agent sessions" \
      org.opencontainers.image.licenses="MIT"
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin sessionwire
COPY --from=build /opt/sessionwire /opt/sessionwire
ENV PATH=/opt/sessionwire/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SESSIONWIRE_HOST=0.0.0.0 \
    SESSIONWIRE_DATA_DIR=/tmp/sessionwire
USER 10001
EXPOSE 8787
STOPSIGNAL SIGTERM
ENTRYPOINT ["sessionwire"]
CMD ["serve"]
