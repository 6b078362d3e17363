"""The cluster of the lab that the environment's ROTA_LAB names. It is there, or these tests fail."""

import os

import pytest
from tests.cluster.cluster import Cluster
from tests.cluster.inventory import read_inventory
from tests.lab.labctl import Labctl


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """Give the cluster."""
    return Cluster(Labctl(os.environ["ROTA_LAB"]), read_inventory())
