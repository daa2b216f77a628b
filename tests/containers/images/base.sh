#!/usr/bin/env bash
# Make a stand-in for python:3.11-slim-bookworm from Debian's packages, for machines that reach no
# registry of images. Needs root, buildah and debootstrap.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | grep -m 1 debian)
debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm \
    "$folder/image" "$mirror" >/dev/null
for name in python3 python3.11 python; do
    ln -sfr "$folder/image/usr/bin/python3.11" "$folder/image/usr/local/bin/$name"
done
# This machine's certificates and package index are the container's, too.
certificates=etc/ssl/certs/ca-certificates.crt
cp "/$certificates" "$folder/image/$certificates"
index=etc/pip.conf
[ ! -e "/$index" ] || cp "/$index" "$folder/image/$index"
container=$(buildah from scratch)
buildah copy -q "$container" "$folder/image" /
for name in SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE; do
    buildah config --env "$name=/$certificates" "$container"
done
buildah commit -q "$container" localhost/python:3.11-slim-bookworm
buildah rm "$container" >/dev/null
