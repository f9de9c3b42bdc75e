#!/bin/sh
# Makes kafka-RELEASE.jsonl.gz again, the same to the last byte: sh make.sh 3.9.2; sh make.sh 4.4.0
set -eu
here=$(cd "$(dirname "$0")" && pwd)
jars=$(mktemp -d)
trap 'rm -rf "$jars"' EXIT
case $1 in 3.*) more= ;; *) more=-Pcoordinators ;; esac

mvn --quiet --batch-mode --file "$here/pom.xml" $more -Dkafka="$1" dependency:copy-dependencies -DoutputDirectory="$jars"
java -cp "$jars/*" "$here/Maker.java" "$jars" | gzip -9n >"$here/kafka-$1.jsonl.gz"
