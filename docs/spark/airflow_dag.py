"""Each hour: the captures of the hour before become tables, and are judged. For Airflow 3.

tcpdump writes to /captures/2026/11/28/20/: `-G 300 -w '/captures/%Y/%m/%d/%H/eth0-%M.pcap'`.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "kshark",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,  # one export at a time writes into a folder of tables
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
):
    # --resume: an attempt goes on where the one before was stopped, and captures that are there are skipped
    export = BashOperator(
        task_id="export",
        bash_command=(
            "kshark-spark export /captures/{{ data_interval_start.strftime('%Y/%m/%d/%H') }} --each --resume -q "
            "-o /tables --partition-by date --metrics /var/lib/node_exporter/kshark_export.prom"
        ),
    )
    # exit code 1 means violations: they are in the report, and Prometheus alerts; 2 and 3 fail the task
    report = BashOperator(
        task_id="report",
        bash_command=(
            "kshark-spark report /captures/{{ data_interval_start.strftime('%Y/%m/%d/%H') }} --each -q "
            "-o /reports/{{ data_interval_start.strftime('%Y-%m-%d-%H') }} "
            "--metrics /var/lib/node_exporter/kshark_report.prom || test $? -eq 1"
        ),
    )
    export >> report
