#!/usr/bin/env python3
"""A Brain in the smallest: it takes events from the inbox and calls a tool.

    python3 brain.py [DATA]         DATA is the platform's data folder (default "data")

When a timer rings it writes into the diary. Only one such Brain may run on an inbox.
"""
import http.client, json, socket, sys, time
from datetime import datetime, timezone
from pathlib import Path

data = Path(sys.argv[1] if len(sys.argv) > 1 else "data")
pending, processing, done, failed = (data / "kernel/inbox" / n for n in ("pending", "processing", "done", "failed"))


class Platform(http.client.HTTPConnection):
    """HTTP over the platform's unix socket."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(data / "platform.sock"))


def call(name, arguments):
    """Call a tool. Only is_error false means that it did what it was asked."""
    conn = Platform("platform", timeout=90)
    try:
        conn.request("POST", "/v1/calls", json.dumps({"name": name, "arguments": arguments}))
        answer = json.load(conn.getresponse())
    finally:
        conn.close()
    if answer.get("is_error", True):  # a failed tool, or a problem without is_error
        raise RuntimeError(answer.get("detail") or answer["result"]["content"][0]["text"])
    return answer["result"]


def act(event):
    """What this Brain does about an event; it ignores most."""
    if event["type"] == "timer.triggered":
        call("mcp__diary__write_entry", {"content": event["summary"]})


def handle(path):
    envelope = json.loads(path.read_text(encoding="utf-8"))
    header, event = envelope["header"], envelope["payload"]
    print(header["timestamp"][11:19], header["source"]["app"], event["type"], event.get("summary", ""), flush=True)
    expires = event.get("expire_at")
    if not expires or datetime.fromisoformat(expires) > datetime.now(timezone.utc):
        act(event)


for left in processing.glob("event_*.json"):  # claimed when this Brain last died
    left.rename(pending / left.name)
while True:
    # The time of modification is the order of events; names are not.
    for path in sorted(pending.glob("event_*.json"), key=lambda p: p.stat().st_mtime_ns):
        claim = path.rename(processing / path.name)
        try:
            handle(claim)
            claim.rename(done / claim.name)
        except Exception as err:
            print("failed:", claim.name, err, file=sys.stderr, flush=True)
            claim.rename(failed / claim.name)
    time.sleep(0.2)
