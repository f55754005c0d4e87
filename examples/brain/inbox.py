"""The inbox for a Brain in Python: claim events, acknowledge them, give them back.

    from inbox import Inbox

    with Inbox("data/kernel/inbox") as inbox:
        for event in inbox:                 # waits for the next, for ever
            ...                             # act on event.header and event.payload
            inbox.ack(event)                # or inbox.nack(event, delay=30, reason="no network")

A claimed event belongs to its consumer for `lease` seconds. If the consumer has not
acknowledged the event by then, because it was killed or hangs, the event is pending
again. After `attempts` claims the event becomes a dead letter in failed/, with the
reason beside it. Several consumers may share an inbox, in Python and in Go: they use
the protocol of the package bridge/inbox/queue. With alone=True there is only this
consumer, and the events that it had claimed when it died are pending again as soon
as it starts.

An event is delivered at least once: if a consumer dies between acting and
acknowledging, the event comes again, with event.attempts above 1. A consumer that
must not act twice records event.id before it acts, or makes the idempotency_key of
its call from event.id.

It needs Python 3.11 on Linux and nothing else.
"""
import fcntl, heapq, json, os, time, uuid
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

BACKLOG = 20_000  # names that are held in memory


class Lost(Exception):
    """The claim was lost: its lease expired, and another consumer may have the event."""


class Taken(Exception):
    """The inbox is in use: by a consumer with alone=True, or, for alone=True, by any other."""


class Event:
    """A claimed event: header and payload as in docs/events.md."""

    def __init__(self, name, envelope, attempts, owner):
        self.name, self.header, self.payload = name, envelope["header"], envelope["payload"]
        self.attempts, self._owner = attempts, owner

    @property
    def id(self):
        return self.header["message_id"]

    @property
    def type(self):
        return self.payload["type"]


class Inbox:
    """A consumer of the inbox in the folder root. It must not be used by several threads.

    lease     seconds for which a claim is valid unless it is renewed
    attempts  claims of one event before it becomes a dead letter
    alone     no other consumer may work on this inbox meanwhile
    delete    acknowledged events are deleted, not moved to done/
    poll      seconds between looks at the folder while it is empty
    """

    def __init__(self, root, lease=60.0, attempts=5, alone=False, delete=False, poll=0.2):
        self.root, self.lease, self.attempts, self.delete, self.poll = Path(root), lease, attempts, delete, poll
        if not (self.root / "pending").is_dir():
            raise FileNotFoundError(f"{self.root / 'pending'} does not exist: start the platform first, or name its data folder")
        for folder in ("processing", "done", "failed", "leases"):
            (self.root / folder).mkdir(mode=0o700, exist_ok=True)
        self._shared = os.open(self.root / "consumer.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._shared, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._shared)
            raise Taken(f"{self.root} is consumed by another process") from None
        self._moves = os.open(self.root / "moves.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._backlog, self._reaped = [], -1e9
        if alone:  # nobody else holds a claim
            self._reap(everything=True)

    def close(self):
        """Closes the consumer. Its events stay claimed until their leases expire."""
        os.close(self._moves)
        os.close(self._shared)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __iter__(self):
        while True:
            yield from self.claim(1)

    def claim(self, n=1, wait=None):
        """Up to n events in the order of publication. Waits for the first, for at most wait seconds."""
        until = None if wait is None else time.monotonic() + wait
        while True:
            events = self._try(n)
            if events or until is not None and time.monotonic() >= until:
                return events
            time.sleep(self.poll if until is None else max(0, min(self.poll, until - time.monotonic())))

    def ack(self, *events):
        """Acknowledges events: they are moved to done/, durably. Raises Lost if a claim was lost."""
        def end(event, _):
            path = self._path("processing", event.name)
            path.unlink() if self.delete else path.rename(self._path("done", event.name))
            self._drop(event.name)
        self._mine(events, end, "processing", "done")

    def nack(self, event, delay=0.0, reason="given back"):
        """Gives the event back: it is pending again after delay seconds, or a dead letter."""
        self._mine([event], lambda e, lease: self._give_back(e.name, lease, reason, delay), "processing", "pending", "failed")

    def dead_letter(self, event, reason):
        """Puts the event into failed/, with the reason beside it."""
        self._mine([event], lambda e, lease: self._bury(e.name, reason, lease["attempts"]), "processing", "failed")

    def renew(self, event, seconds):
        """Renews the claim for a number of seconds from now."""
        self._mine([event], lambda e, lease: self._write(self._path("leases", e.name), lease | {"until": stamp(seconds)}))

    # The following methods run while no other consumer moves files.

    @contextmanager
    def _alone(self):
        fcntl.flock(self._moves, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._moves, fcntl.LOCK_UN)

    def _try(self, n):
        if not self._backlog or time.monotonic() - self._reaped > self.lease / 4:
            self._reap()
        if not self._backlog:
            self._backlog = self._head()[::-1]
        events = []
        with self._alone():
            while self._backlog and len(events) < n:
                event = self._claim(self._backlog.pop())
                if event:
                    events.append(event)
        return events

    def _head(self):
        """The first pending names. One scan may see a later file and miss an earlier one that
        appears meanwhile. So a second scan takes the files up to the latest of the first scan."""
        latest = max(self._entries(), default=None)
        return [] if latest is None else [name for _, name in heapq.nsmallest(BACKLOG, (e for e in self._entries() if e <= latest))]

    def _entries(self):
        for entry in os.scandir(self.root / "pending"):
            if is_event(entry.name):
                try:
                    yield entry.stat(follow_symlinks=False).st_mtime_ns, entry.name
                except FileNotFoundError:
                    pass

    def _claim(self, name):
        old = self._read(name) or {}
        if later(old.get("not_before")) or self._path("processing", name).exists():
            return None
        owner = uuid.uuid4().hex
        lease = {"owner": owner, "until": stamp(self.lease), "attempts": old.get("attempts", 0) + 1, "reason": old.get("reason", "")}
        self._write(self._path("leases", name), lease)
        claimed = self._path("processing", name)
        try:
            self._path("pending", name).rename(claimed)
        except FileNotFoundError:  # somebody else took or deleted it
            self._drop(name)
            return None
        try:
            event = Event(name, json.loads(claimed.read_bytes()), lease["attempts"], owner)
            expire = event.payload.get("expire_at")
            expired = expire is not None and not later(expire)
            event.id, event.type
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:  # the last of what is nested too deep
            self._bury(name, f"not an envelope: {err!r}", lease["attempts"])
            return None
        if expired:
            claimed.rename(self._path("done", name))
            self._drop(name)
            return None
        return event

    def _reap(self, everything=False):
        """Makes events pending again whose consumers have died."""
        self._reaped = time.monotonic()
        with self._alone():
            for name in filter(is_event, os.listdir(self.root / "processing")):
                lease = self._read(name)
                if lease is None:  # claimed without leases, or a power cut took it
                    try:
                        lease = {"attempts": 1, "until": stamp(self.lease, self._path("processing", name).stat().st_ctime)}
                    except FileNotFoundError:
                        continue
                if everything or not later(lease.get("until")):
                    self._give_back(name, lease, "its consumer did not acknowledge it in time", 0)
            for name in os.listdir(self.root / "leases"):  # of events that are gone
                if not any(self._path(folder, name).exists() for folder in ("pending", "processing")):
                    self._drop(name)

    def _mine(self, events, end, *folders):
        lost = []
        with self._alone():
            for event in events:
                lease = self._read(event.name)
                if lease is None or lease.get("owner") != event._owner:
                    lost.append(event.id)
                else:
                    end(event, lease)
        for folder in folders:
            fd = os.open(self.root / folder, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        if lost:
            raise Lost(", ".join(lost))

    def _give_back(self, name, lease, reason, delay):
        if lease["attempts"] >= self.attempts:
            self._bury(name, f"given up after {lease['attempts']} attempts: {reason}", lease["attempts"])
            return
        free = {"attempts": lease["attempts"], "reason": reason}
        if delay > 0:
            free["not_before"] = stamp(delay)
        self._write(self._path("leases", name), free)
        self._path("processing", name).rename(self._path("pending", name))

    def _bury(self, name, reason, attempts):
        self._write(self._path("failed", name.removesuffix(".json") + ".reason"), {"reason": reason, "attempts": attempts, "time": stamp(0)})
        self._path("processing", name).rename(self._path("failed", name))
        self._drop(name)

    def _path(self, folder, name):
        return self.root / folder / name

    def _read(self, name):
        try:
            lease = json.loads(self._path("leases", name).read_bytes())
            return lease if isinstance(lease.get("attempts"), int) else {"attempts": 1}
        except FileNotFoundError:
            return None
        except (ValueError, AttributeError):  # a crash left it half-written
            return {"attempts": 1, "reason": "the claim was not completed"}

    def _write(self, path, value):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as f:
            json.dump(value, f)

    def _drop(self, name):
        self._path("leases", name).unlink(missing_ok=True)


def is_event(name):
    return name.startswith("event_") and name.endswith(".json") and name.count("_") >= 2


def stamp(seconds, since=None):
    """The time a number of seconds after now, or after since, as RFC 3339."""
    at = (time.time() if since is None else since) + seconds
    return datetime.fromtimestamp(at, timezone.utc).isoformat()


def later(text):
    """Whether a time in the format of RFC 3339 is in the future."""
    return text is not None and datetime.fromisoformat(text) > datetime.now(timezone.utc)
