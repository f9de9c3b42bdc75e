"""The file for spark-submit where kshark is installed or sent along: `run.py check s3://bucket/captures/ --each`."""

import sys

from kshark_spark.__main__ import main

sys.exit(main())
