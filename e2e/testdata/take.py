"""take.py INBOX LOG SECONDS: consumes, one line "id attempts" in LOG per event before its acknowledgement."""
import os, sys

sys.path.insert(0, sys.argv[4])
from inbox import Inbox, Lost

log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
with Inbox(sys.argv[1], lease=1, attempts=1000) as inbox:
    print("ready", flush=True)
    while events := inbox.claim(7, wait=float(sys.argv[3])):
        for event in events:
            os.write(log, f"{event.id} {event.attempts}\n".encode())
        os.fsync(log)
        try:
            inbox.ack(*events)
        except Lost:
            pass
