#!/bin/sh
# A real share-group incident the whole way: every step shows the command it runs, so that the next one can be typed.
set -u
bin=$(cd "$1" && pwd)
capture=captures/adv-epochs.pcap
out=out/demo
rm -rf "$out"

step() {
    printf '\n\033[1m$ %s\033[0m\n' "$*" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi
    command=$1
    shift
    "$bin/$command" "$@"
    code=$?
    # check answers 1 when it found violations: that is what the demo is about
    [ $code -le 1 ] || exit $code
    return $code
}

codes=EPOCH_SKIP_AHEAD,EPOCH_REPLAY,ADVANCED_AFTER_ERROR,TWO_COUNTERS,USE_AFTER_FINAL
echo "A client loses count of its share session on a real Kafka broker. Since Kafka 4.4 only the wire shows it."
step kshark stats $capture
step kshark read $capture --since +4.12s --until +4.19s
step kshark sessions $capture
step kshark check $capture --select $codes
step kshark explain EPOCH_SKIP_AHEAD
step kshark explain 123
step kshark export $capture -o $out
echo
if JAVA_HOME=$("$bin/python" -c 'from kshark_spark.java import MISSING, find_java
java = find_java() or exit(MISSING)
print(java.home)'); then
    export JAVA_HOME PYSPARK_PYTHON="$bin/python"
    step kshark-spark check $out --select $codes
    echo
    echo "The packets and the tables gave the same findings. Now the tables alone: a PySpark job of a hundred lines counts the epochs again,"
    echo "without kshark. A row is a run of refused requests: the epoch that the first one used, the one that was due, what the client did"
    echo "wrong, and what ended it (spark_analysis/jobs has four more jobs)."
    (step spark-submit --properties-file spark_analysis/jobs/local.conf spark_analysis/jobs/epochs.py $out) 2> out/spark.log ||
        { cat out/spark.log >&2; exit 2; }
fi
echo "Next: $bin/kshark check YOUR.pcap"
