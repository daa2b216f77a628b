#!/bin/bash
# Kafka's scripts by their names; the broker's settings are KAFKA_... in the environment.
set -eu

java=$(/opt/hudilab/.venv/bin/python -c 'from hudilab_spark.java import find_java; print(find_java().home)')/bin/java
libs='/opt/kafka/libs/*'
case $(basename "$0") in
    kafka-topics.sh) class=org.apache.kafka.tools.TopicCommand ;;
    kafka-broker-api-versions.sh) class=org.apache.kafka.tools.BrokerApiVersionsCommand ;;
    kafka-server-start.sh)
        settings=/opt/kafka/config/server.properties
        env | sed -nE 's/^KAFKA_([A-Z_]+)=/\1=/p' | while IFS='=' read -r name value; do
            echo "$(echo "$name" | tr 'A-Z_' 'a-z.')=$value"
        done >$settings
        "$java" -cp "$libs" kafka.tools.StorageTool format --ignore-formatted \
            --cluster-id 5L6g3nShT-eMCtK--X86sw --config $settings
        exec "$java" -Xmx512m -cp "$libs" kafka.Kafka $settings
        ;;
esac
exec "$java" -Xmx256m -cp "$libs" "$class" "$@"
