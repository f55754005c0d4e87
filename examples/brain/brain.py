#!/usr/bin/env python3
"""A minimal Brain: it takes events from the inbox and calls tools.

When a timer rings, it writes into the diary by HTTP, asks for the time by a file
in the outbox, and prints the answer when it has come. Only one such Brain may run
on an inbox. It needs Python 3.11 and nothing else.
"""
import argparse, http.client, json, socket, sys
from pathlib import Path

from inbox import Inbox, Taken

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("data", nargs="?", default="data", type=Path, help="the platform's data folder (default: data)")
data = options.parse_args().data

outbox = data / "kernel/outbox"


def say(*words):
    print(*words, flush=True)


class Platform(http.client.HTTPConnection):
    """HTTP over the platform's unix socket."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        # The socket is in another folder if its path would be too long here.
        self.sock.connect((data / "state/socket").read_text().strip())


def call(name, arguments, key):
    """Call a tool and wait. A repeated call with the same key gets the first answer.

    The tool succeeded only if is_error is false."""
    conn = Platform("platform", timeout=90)
    try:
        request = {"name": name, "arguments": arguments, "idempotency_key": key}
        conn.request("POST", "/v1/calls", json.dumps(request))
        answer = json.load(conn.getresponse())
    finally:
        conn.close()
    if answer.get("error_code") == "approval_required":
        say("a person has to say: platform approvals approve", answer["data"]["approval_id"])
    if answer.get("is_error", True):  # a failed tool, or a problem without is_error
        raise RuntimeError(answer.get("detail") or answer["result"]["content"][0]["text"])
    return answer["result"]


def request(name, arguments, id, **more):
    """Ask for a call by file. Its answer is an event with the correlation_id id.

    More is wait, timeout_ms, approval, idempotency_key, provenance."""
    text = json.dumps({"name": name, "arguments": arguments, **more})
    draft = outbox / f"{id}.tmp"
    draft.write_text(text, encoding="utf-8")
    draft.rename(outbox / "pending" / f"call_{id}.json")  # whole at once


def act(header, event):
    """What this Brain does about an event; it ignores most."""
    asked = header.get("correlation_id", "").startswith("brain-")
    if event["type"] == "timer.triggered":
        cause = header["message_id"]  # the same when the event comes again after a crash
        call("mcp__diary__write_entry", {"content": event["summary"]}, f"diary-{cause}")
        # If a person is asked about this one, its answer comes after theirs.
        request("mcp__clock__get_time", {}, f"brain-{cause}", wait=True)
    elif asked and event["type"] == "tool.completed":
        say("the answer to", header["correlation_id"], "is", event["data"].get("preview", "(nothing)"))
    elif asked and event["type"] == "tool.failed":
        say("no answer to", header["correlation_id"] + ":", event["data"].get("reason") or event["data"].get("preview"))


def main():
    with Inbox(data / "kernel/inbox", alone=True) as inbox:
        for event in inbox:
            say(event.header["timestamp"][11:19], event.header["source"]["app"], event.type, event.payload.get("summary", ""))
            try:
                act(event.header, event.payload)
                inbox.ack(event)
            except Exception as err:
                print("failed:", event.name, err, file=sys.stderr, flush=True)
                inbox.nack(event, delay=5, reason=str(err))


try:
    main()
except KeyboardInterrupt:
    pass
except (FileNotFoundError, Taken) as err:
    sys.exit(str(err))
