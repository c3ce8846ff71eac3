"""Deprecated import names: in a checkout, `spark_jobs.X` is the module `pushdown_spark.X`.

The package `pushdown_spark` is in this directory. This module is not part of any distribution.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

_OLD, _NEW = "spark_jobs", "pushdown_spark"
_RENAMED = {
    "codes": "errors",
    "join_spec": "contract.join_tree",
    "joins": "optimizer",
    "joins.helper": "optimizer.dataframe_helper",
    "message": "contract.message",
    "projection.catalog": "projection.implicit_columns",
    "readers": "formats",
    "readers.avro": "formats.avro",
    "readers.avro.data_source": "formats.avro.data_source",
    "readers.orc": "formats.orc",
    "readers.orc.data_source": "formats.orc.data_source",
    "readers.remote": "databases",
    "readers.remote.data_source": "databases.data_source",
    "remote_spec": "contract",
    "report": "contract.report_text",
    "run": "job",
    "versions": "contract.versions",
}


class _OldNames(MetaPathFinder, InspectLoader):
    """Finds and loads the new module for an old name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{_OLD}."):
            return None
        return ModuleSpec(fullname, self, is_package=hasattr(_new_module(fullname), "__path__"))

    def exec_module(self, module: ModuleType) -> None:
        # Both names stand for one module, so that its classes are the same.
        sys.modules[module.__name__] = _new_module(module.__name__)

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the new module, for `python -m spark_jobs`."""
        new = _new_module(fullname)
        assert new.__spec__ is not None
        assert isinstance(new.__spec__.loader, InspectLoader)
        return new.__spec__.loader.get_code(new.__name__)

    def get_source(self, fullname: str) -> str | None:
        return None


def _new_module(old: str) -> ModuleType:
    name = old.removeprefix(f"{_OLD}.")
    return importlib.import_module(f"{_NEW}.{_RENAMED.get(name, name)}")


warnings.warn(f"{_OLD} is deprecated: import {_NEW}", DeprecationWarning, stacklevel=2)
if importlib.util.find_spec(_NEW) is None:
    sys.path.append(str(Path(__file__).parent))
sys.meta_path.insert(0, _OldNames())
