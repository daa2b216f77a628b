# Stands in for apache/kafka where no registry can be reached: its documented paths, user, volume and
# environment, with Kafka's own jars.
FROM hudilab:0.1.0

USER root
COPY kafka.py kafka.sh /opt/kafka/bin/
RUN cd /opt/hudilab \
    && .venv/bin/python /opt/kafka/bin/kafka.py \
    && mkdir -p /var/lib/kafka/data /opt/kafka/config \
    && cd /opt/kafka/bin \
    && chmod +x kafka.sh \
    && for name in topics broker-api-versions server-start; do ln -s kafka.sh "kafka-$name.sh"; done \
    && chown -R 1000 /var/lib/kafka /opt/kafka
USER 1000:1000
VOLUME /var/lib/kafka/data
HEALTHCHECK NONE
ENTRYPOINT ["/opt/kafka/bin/kafka-server-start.sh"]
CMD []
