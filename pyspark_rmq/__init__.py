"""Makes `spark.read.format("rmq")` work without configuration.

Spark imports every module on the path whose name begins with pyspark_ and registers its
DefaultSource. The code is in rmq.spark, and most of it is imported when it is first used. A module
that raises here would hide all other sources, so a missing package is reported at the first use.
"""

from typing import Any

from pyspark.sql.datasource import DataSource

try:
    from rmq.spark.source import RmqDataSource as DefaultSource
except ImportError as error:
    _reason = str(error)

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        """Says why rmq cannot be used by this interpreter."""

        @classmethod
        def name(cls) -> str:
            return "rmq"

        def schema(self) -> Any:
            import sys

            raise ImportError(
                f"rmq is not complete for {sys.executable}: {_reason}. Install it there,"
                " pip install 'rmq[spark]', or name another interpreter by PYSPARK_PYTHON"
            )


__all__ = ["DefaultSource"]
