"""The translation of Hadoop's settings of HDFS for Python."""

from __future__ import annotations

import pytest

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.sources.stores.hdfs_settings import hdfs_settings

_SERVICE = {
    "dfs.ha.namenodes.lake": "a, b",
    "dfs.namenode.http-address.lake.a": "one:9870",
    "dfs.namenode.http-address.lake.b": "two:9870",
}


@pytest.mark.parametrize(
    ("authority", "settings", "name_nodes"),
    [
        ("nn:8020", {}, ("nn:9870",)),
        ("nn:8020", {"dfs.namenode.http-address": "0.0.0.0:50070"}, ("nn:50070",)),
        (
            "nn",
            {"dfs.namenode.http-address": "other:9870", "hadoop.security.authentication": "simple"},
            ("other:9870",),
        ),
        ("lake", _SERVICE, ("one:9870", "two:9870")),
    ],
)
def test_name_nodes_have_the_addresses_of_hadoops_settings(
    authority: str, settings: dict[str, str], name_nodes: tuple[str, ...]
) -> None:
    actual = hdfs_settings(authority, lambda key: settings.get(key, ""), "me")
    assert (actual.name_nodes, actual.user) == (name_nodes, "me")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"hadoop.security.authentication": "kerberos"}, "hadoop.security.authentication"),
        ({"dfs.webhdfs.enabled": "false"}, "dfs.webhdfs.enabled is false"),
        ({"dfs.encrypt.data.transfer": "true"}, "dfs.encrypt.data.transfer is true"),
        ({"dfs.http.policy": "HTTPS_ONLY"}, "dfs.http.policy is HTTPS_ONLY"),
        ({"dfs.ha.namenodes.lake": "a,b", "dfs.namenode.http-address.lake.a": "one:1"}, "not set for each name node"),
    ],
)
def test_settings_that_only_hadoop_supports_are_unsupported(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        hdfs_settings("lake", lambda key: settings.get(key, ""), "me")
