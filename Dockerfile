# xRegistry Lakehouse from its wheel: python -m build --wheel && docker build -t xregistry-lakehouse .
#   docker run --rm -v /data:/data xregistry-lakehouse ingest /data/documents
#   docker run --rm -it -v /data:/data xregistry-lakehouse sql-user /data/users alice
#   docker run -p 127.0.0.1:8080:8080 -v /data:/data:ro xregistry-lakehouse    # serves it to these users; a proxy in front speaks TLS
# On Kubernetes: conf/kubernetes/. The base by its digest: docker build --build-arg BASE=python:...@sha256:... (docs/operations.md)
ARG BASE=python:3.11.14-slim-bookworm
FROM ${BASE}

# Extras of the package, separated by commas, and jars of Maven, such as org.apache.hadoop:hadoop-aws:3.5.0.
ARG EXTRAS=serve,spark
ARG PACKAGES=

# Spark runs on Java 17; its scripts call ps.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 lakehouse

# Each file by its hash (.ci/pin): pip itself, since older ones take no hashes of dependencies; then the wheel and its extras.
COPY .ci/constraints-build.txt .ci/constraints-image.txt dist/*.whl /tmp/
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement /tmp/constraints-build.txt \
 && echo "xregistry-lakehouse[${EXTRAS}] @ file://$(ls /tmp/*.whl) --hash=sha256:$(sha256sum /tmp/*.whl | cut -d' ' -f1)" > /tmp/wheel.txt \
 && pip install --no-cache-dir --require-hashes --no-build-isolation --constraint /tmp/constraints-image.txt --requirement /tmp/wheel.txt \
 && pip check && rm /tmp/*.whl /tmp/*.txt

# Delta Lake's jars and PACKAGES are resolved here, so that a container needs no Maven. All in this folder are on Spark's class path.
RUN printf 'from lakehouse.store.session import resolve_delta_jars\nfrom lakehouse.settings import read_settings\nprint(*resolve_delta_jars(read_settings()))\n' > /tmp/delta.py \
 && mkdir -p /opt/xregistry/jars && mv $(python /tmp/delta.py) /opt/xregistry/jars/ \
 && if [ -n "${PACKAGES}" ]; then : > /tmp/nothing.py \
     && spark-submit --packages "${PACKAGES}" --conf spark.jars.ivy=/tmp/ivy /tmp/nothing.py && mv /tmp/ivy/jars/*.jar /opt/xregistry/jars/; fi \
 && rm -rf /tmp/* /root/.cache
ENV LAKEHOUSE_DELTA_JARS=/opt/xregistry/jars
# From an archive of its classes (200 MB) Spark starts in half the time; a Java that cannot write one is no reason to have no image.
RUN lakehouse prepare --quiet || true; rm -rf /tmp/* /root/.cache

COPY jobs /opt/xregistry/jobs
COPY conf /opt/xregistry/conf
COPY --chmod=755 conf/kubernetes/entrypoint.sh /opt/xregistry/entrypoint.sh

# The warehouse belongs into a volume; uid 10001 must be able to write there.
USER 10001
WORKDIR /home/lakehouse
ENV LAKEHOUSE_WAREHOUSE=/data/warehouse
VOLUME /data
ENTRYPOINT ["/opt/xregistry/entrypoint.sh"]
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/health', timeout=4)"]
CMD ["serve", "--host", "0.0.0.0", "--behind-proxy", "--users", "/data/users"]
