#!/bin/bash
# What a container of the image runs: the command `lakehouse`; for Spark on Kubernetes, which says `driver` or `executor`, that
# part of a job; and `spark-submit` itself. Settings of these parts are in variables SPARK_..., as for Spark's image.
set -euo pipefail

jars="/opt/xregistry/jars/*"

case "${1:-}" in
driver)
  shift
  exec tini -s -- spark-submit --deploy-mode client --driver-class-path "$jars" \
    --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
  ;;
executor)
  options=()
  for ((n = 0; ; n++)); do
    name=SPARK_JAVA_OPT_$n
    [[ -v $name ]] || break
    options+=("${!name}")
  done
  spark=$(python -c 'import pyspark; print(pyspark.__path__[0])')
  exec tini -s -- java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-$spark/conf}:$spark/jars/*:$jars${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
  ;;
spark-submit)
  exec tini -s -- "$@"
  ;;
*)
  exec tini -s -- lakehouse "$@"
  ;;
esac
