"""WHAT WE REMEMBER: definitions, history and leases in; the same out, from any process.

A cache over the backing tables' logs: all but the leases can be rebuilt from them, so nothing here is worth more
than a `runnel repair`. `url.py` reads the address, `database.py` runs transactions and names failures, `tables.py` is the
schema, `catalog.py` what is stored, `lease.py` who may refresh, `alarms.py` what wakes its renewals, `schedules.py` what daemons and operators said, `quarantine.py` puts a broken file aside.
"""

from runnel.state.catalog import Catalog, Entry, Published
from runnel.state.lease import Lease
from runnel.state.quarantine import quarantine

__all__ = ["Catalog", "Entry", "Lease", "Published", "quarantine"]
