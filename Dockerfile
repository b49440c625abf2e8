# A server for the team that the store declares, or that the command names. docs/deployment.md says how to run it.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
# What is installed is this folder; its own bounds say which versions of others it needs.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir --prefix=/install '.[server,postgres,openai,anthropic]'

FROM python:3.13-slim
COPY --from=build /install /usr/local
RUN useradd --system --create-home --uid 10001 changeover && install -d -o changeover /data
USER 10001
WORKDIR /data
ENV PYTHONUNBUFFERED=1 CHANGEOVER_STORE=sqlite:////data/changeover.db
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD \
  ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8765/api/v1/ready', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["changeover", "serve", "--host", "0.0.0.0"]
