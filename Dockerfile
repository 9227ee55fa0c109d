# xRegistry Lakehouse from its wheel: python -m build --wheel && docker build -t xregistry-lakehouse .
#   docker run --rm -v /data:/data xregistry-lakehouse ingest /data/documents
#   docker run -p 8080:8080 -v /data:/data:ro xregistry-lakehouse        # serves it to everybody; TLS is the proxy's in front
#   docker run --rm -v /data:/data --entrypoint spark-submit xregistry-lakehouse --master ... /opt/xregistry/jobs/ingest.py ...
# The base by its digest: docker build --build-arg BASE=python:3.11-slim-bookworm@sha256:... (docs/operations.md)
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}

# Spark runs on Java 17; ps is asked for by its scripts.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 lakehouse

# Files that were looked at once, by their hashes (.ci/pin); then the wheel, which brings nothing along.
COPY .ci/constraints-build.txt .ci/constraints-image.txt /tmp/
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement /tmp/constraints-build.txt \
 && pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-build-isolation --requirement /tmp/constraints-image.txt
COPY dist/*.whl /tmp/
RUN pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /tmp/*.whl && pip check && rm /tmp/*.whl /tmp/*.txt

COPY jobs /opt/xregistry/jobs
COPY conf /opt/xregistry/conf

# Delta Lake's jars are resolved here, so that a container needs no Maven.
USER lakehouse
WORKDIR /home/lakehouse
RUN printf 'from lakehouse.store.session import resolve_delta_jars\nfrom lakehouse.settings import read_settings\nresolve_delta_jars(read_settings())\n' > resolve.py \
 && python resolve.py && rm resolve.py

# The warehouse belongs into a volume; uid 10001 must be able to write there.
ENV LAKEHOUSE_WAREHOUSE=/data/warehouse
VOLUME /data
ENTRYPOINT ["tini", "--", "lakehouse"]
EXPOSE 8080
CMD ["serve", "--host", "0.0.0.0", "--allow-anonymous", "--behind-proxy"]
