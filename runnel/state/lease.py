"""Who may refresh a stream table: one row per held name, taken over when its holder stops renewing it.

A holder is an acquisition, not a process: two threads exclude each other, and a thread excludes itself.
Expiry is judged by the database's clock; the holder's own clock only makes it give up earlier, never later.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from sqlalchemy import BindParameter, Connection, Float, bindparam, delete, select, update

from runnel.errors import RunnelError, Transient
from runnel.state.alarms import Alarms
from runnel.state.database import Database
from runnel.state.tables import lease as table

log = logging.getLogger(__name__)


class Leases:
    """The leases of one catalog. Statements that every refresh makes are built once."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.alarms = Alarms()
        name: BindParameter[str] = bindparam("of")
        token: BindParameter[str] = bindparam("by")
        clock = database.clock
        until = clock + bindparam("seconds", type_=Float)
        row = {"owner": bindparam("holder"), "token": token, "acquired_at": clock, "expires_at": until}
        mine = (table.c.name == name) & (table.c.token == token)
        self.take = (
            database.insert(table)
            .values(name=name, **row)
            .on_conflict_do_update(index_elements=["name"], set_=row, where=table.c.expires_at < clock)
            .returning(table.c.token)
        )
        self.renew = update(table).where(mine).values(expires_at=until)
        self.release = delete(table).where(mine)

    @contextmanager
    def hold(self, name: str, *, owner: str | None, wait: float, ttl: float) -> Iterator[Lease]:
        """Hold `name` for the length of a `with` block; the yielded lease can be asked whether it still holds."""
        lease = Lease(self, name, owner or f"{socket.gethostname()}:{os.getpid()}", ttl)
        lease._acquire(wait)
        renewal = self.alarms.put(ttl / 3, lease._start_renewing)
        try:
            yield lease
        finally:
            self.alarms.take_back(renewal)
            lease._stop_renewing()
            lease._release()

    def holders(self) -> set[str]:
        """The names that somebody holds now: leases that have not expired, and whose process is not known to be dead."""
        held = select(table.c.name, table.c.owner).where(table.c.expires_at >= self.database.clock)
        return {row.name for row in self.database.read(lambda connection: connection.execute(held).all()) if not _dead(row.owner)}


class Lease:
    """The right to refresh `name`, until released, or lost to somebody who saw it expire."""

    def __init__(self, leases: Leases, name: str, owner: str, ttl: float) -> None:
        assert ttl > 0, "a lease needs a time to live"
        self.name = name
        self.owner = owner
        self._leases = leases
        self._database = leases.database
        self._ttl = ttl
        self._token = uuid4().hex
        self._taken_over = False
        self._valid_until = 0.0
        self._released = threading.Event()
        self._renewing: threading.Thread | None = None

    @property
    def lost(self) -> bool:
        """True when taken over, or when no renewal succeeded for a whole `ttl` and it may have been."""
        return self._taken_over or time.monotonic() >= self._valid_until

    def check(self) -> None:
        """Raise when lost: to be called before an effect that only the holder may have."""
        if self.lost:
            raise Transient(
                f'the lease on "{self.name}" was lost',
                code="LEASE_LOST",
                detail=f"It was not renewed for {self._ttl:g} s, or another process took it over.",
                hint="Try again; raise the setting lock_lease_seconds if the catalog is slow to reach.",
            )

    def _acquire(self, wait: float) -> None:
        give_up_at = time.monotonic() + wait
        pause = 0.002
        while not self._take():
            left = give_up_at - time.monotonic()
            if left <= 0:
                raise self._busy(wait)
            self._bury_the_dead()
            time.sleep(min(left, pause * random.uniform(0.5, 1.0)))
            pause = min(pause * 1.5, 0.2)

    def _take(self) -> bool:
        values = {**self._mine, "holder": self.owner, "seconds": self._ttl}
        return self._extend(lambda connection: connection.execute(self._leases.take, values).first() is not None)

    def _bury_the_dead(self) -> None:
        """Take away the lease of a process of this machine that no longer runs, instead of waiting for it to expire."""
        holder = select(table.c.owner, table.c.token).where(table.c.name == self.name)
        row = self._database.read(lambda connection: connection.execute(holder).first())
        if row is not None and _dead(row.owner):
            gone = delete(table).where(table.c.name == self.name, table.c.token == row.token)
            self._database.write(lambda connection: connection.execute(gone))

    def _renew(self) -> bool:
        values = {**self._mine, "seconds": self._ttl}
        return self._extend(lambda connection: connection.execute(self._leases.renew, values).rowcount == 1)

    def _extend(self, work: Callable[[Connection], bool]) -> bool:
        asked_at = time.monotonic()  # before the database reads its clock, so that we expire first
        held = self._database.write(work)
        if held:
            self._valid_until = asked_at + self._ttl
        return held

    def _start_renewing(self) -> None:
        """Renew from a thread of its own: a database that hangs delays nobody else."""
        self._renewing = threading.Thread(target=self._renew_until_released, name=f"runnel-lease-{self.name}", daemon=True)
        self._renewing.start()

    def _stop_renewing(self) -> None:
        self._released.set()
        if self._renewing is not None:
            self._renewing.join(timeout=1)  # a renewal stuck in the database does not delay us: it cannot revive a deleted row

    def _renew_until_released(self) -> None:
        while not self._released.is_set():
            try:
                self._taken_over = not self._renew()
            except RunnelError as error:  # the next turn tries again; meanwhile `lost` watches the time
                log.warning("lease not renewed", extra={"lease": self.name, "code": error.code})
            if self._taken_over:
                log.warning("lease lost", extra={"lease": self.name})
                return
            self._released.wait(self._ttl / 3)

    def _release(self) -> None:
        try:
            self._database.write(lambda connection: connection.execute(self._leases.release, self._mine))
        except RunnelError as error:  # the work is done, and the row expires by itself
            log.warning("lease not released", extra={"lease": self.name, "code": error.code})

    @property
    def _mine(self) -> dict[str, str]:
        return {"of": self.name, "by": self._token}

    def _busy(self, wait: float) -> Transient:
        clock = self._database.clock
        statement = select(table.c.owner, clock - table.c.acquired_at, table.c.expires_at - clock).where(table.c.name == self.name)
        row = self._database.read(lambda connection: connection.execute(statement).first())
        owner, age, left = row or ("a holder that has just released it", 0.0, 0.0)
        other = "thread" if owner == self.owner else "process"
        return Transient(
            f'"{self.name}" is being refreshed by another {other}',
            code="BUSY",
            detail=f"Held by {owner} for {age:.1f} s; its lease runs for {max(left, 0.0):.1f} s more unless renewed. Waited {wait:g} s.",
            hint="Try again later, or raise the setting lock_wait_seconds.",
            owner=owner,
            age=age,
        )


def _dead(owner: str) -> bool:
    """True when an owner `host:pid` names a process that this machine does not have."""
    host, _, pid = owner.rpartition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
