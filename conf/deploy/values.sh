# Values of the templates in this folder. Edit and source this file, then fill in a template:
#   . conf/deploy/values.sh
#   envsubst <conf/deploy/emr-job-run.json >dist/job.json
# Buckets, region and topics must be those of conf/aws/application_properties.json.

# --- Job

# Words after main.py, as a JSON list: '["stream", "orders"]' or '["tidy", "s3://...", "--stopped"]'.
# An empty list runs the job of group spark.run.options.
export JOB_ARGUMENTS='[]'
# The job's name in EMR and Kubernetes: lowercase letters, digits and -.
export JOB_NAME=stock-prices

# --- Amazon EMR Serverless and IAM

# The AWS partition of your region: aws, aws-cn (China) or aws-us-gov (GovCloud).
export PARTITION=aws
# The same region as aws.region in group HudiTable0.
export REGION=us-east-1
# Your account's ID, twelve digits.
export ACCOUNT=123456789012
# The name of the role that the job runs as.
export ROLE_NAME=hudilab-job
# The bucket of warehouse.path, which is s3://bucket/prefix.
export WAREHOUSE_BUCKET=hudilab-warehouse
# Its prefix, which can't be empty: the role gets access to this prefix and not to the whole bucket.
export WAREHOUSE_PREFIX=lab
# Where you upload the bundle, as bucket/prefix. Give each version a prefix of its own.
export BUNDLE=BUCKET/hudilab/1
# The ID that create-application prints.
export APPLICATION_ID=00abcdef12345678
# STREAMING for a job that runs until it is stopped, BATCH for one that ends.
export JOB_MODE=STREAMING
# What EMR does after a failure. For a job that ends, this starts it once: '{"maxAttempts": 1}'.
export RETRY_POLICY='{"maxFailedAttemptsPerHour": 5}'
# The bundle's Python in the application's image. If you upload a packed environment instead, append
# ,s3://BUCKET/NAME.tar.gz#environment to spark.archives, and use ./environment/bin/python.
export JOB_PYTHON=/usr/bin/python3.11

# --- What the job uses besides the warehouse: iam-topic.json, iam-topics-written.json, iam-source.json

# The MSK cluster's name and ID, the end of its ARN.
export CLUSTER=NAME/ID
# The topic that the job reads: topic.name of consumer.config.0, or of the pipeline.
export TOPIC_READ=stocks-in
# The topic that stock_prices writes: topic.name of producer.config.0.
export TOPIC_WRITTEN=stocks-out
# The topic of unreadable messages: dead.letter.topic.name of producer.config.0.
export TOPIC_DEAD=stocks-dead
# The bucket of a pipeline's source.path outside of the warehouse.
export SOURCE_BUCKET=landing
# Its prefix; for the whole bucket, '*'.
export SOURCE_PREFIX=orders

# --- Kubernetes

# The lab's image, as the cluster pulls it.
export IMAGE=hudilab:0.1.0
# The namespace in which the job runs.
export NAMESPACE=default
# The account of driver and executors. It must be allowed to start pods, and on AWS has the role.
export SERVICE_ACCOUNT=spark-operator-spark
# The number of executors, with two cores each.
export EXECUTORS=2
# Always for a job that runs until it is stopped, OnFailure (up to five times) for one that ends.
export RESTART=Always
# RUNTIME_ENV of the job, which selects its settings in conf/: AWS or DOCKER.
export RUNTIME=AWS
