#!/usr/bin/env python3
"""Feeds the platform's events to an event bus inside another program.

A bus that does not watch its folder for files of other processes must be fed
from inside its own program. Start feed() as a task of that program:

    asyncio.create_task(feed("data", bus.inject_event))

inject is a coroutine function that takes an envelope as a dict. An event is
acknowledged when inject has returned; after a crash, an event that was not
acknowledged is handed over again. Where inject raises an exception the event is
pending again and waits, one second at first and at most five minutes. A file that
is no event goes to failed/.
"""
import argparse, asyncio, json, sys, time
from datetime import datetime, timezone
from pathlib import Path


async def feed(data, inject, pause=0.5, first=1.0, longest=300.0):
    inbox = Path(data) / "kernel/inbox"
    pending, processing, done, failed = (inbox / n for n in ("pending", "processing", "done", "failed"))
    for left in processing.glob("event_*.json"):  # claimed when the program last died
        left.rename(pending / left.name)
    waits = {}  # how long an event that could not be handed over waits, and until when, by name
    while True:
        now = time.monotonic()
        for path in sorted(pending.glob("event_*.json"), key=written):
            wait, until = waits.get(path.name, (0, 0))
            if until > now:
                continue
            try:
                claim = path.rename(processing / path.name)
            except FileNotFoundError:  # somebody else took it
                continue
            try:
                envelope = fit(json.loads(claim.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as err:
                print("no event:", claim.name, err, file=sys.stderr, flush=True)
                claim.rename(failed / claim.name)
                continue
            try:
                if envelope:
                    await inject(envelope)
            except Exception as err:
                wait = min(longest, 2 * wait or first)
                waits[claim.name] = wait, time.monotonic() + wait
                print(f"failed, again in {wait:g} s:", claim.name, repr(err), file=sys.stderr, flush=True)
                claim.rename(pending / claim.name)
                continue
            waits.pop(claim.name, None)
            claim.rename(done / claim.name)
        await asyncio.sleep(pause)


def written(path):
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def fit(envelope):
    """What such a bus wants: nothing expired, and a number or null as group_id."""
    event = envelope["payload"]
    expires = event.get("expire_at")
    if expires and datetime.fromisoformat(expires) <= datetime.now(timezone.utc):
        return None
    if event["type"] == "message.received":
        message = event.setdefault("data", {})
        message.setdefault("text", event.get("summary", ""))
        try:
            message["group_id"] = int(str(message.get("group_id")))  # below zero in some networks
        except ValueError:
            message["group_id"] = None
    return envelope


if __name__ == "__main__":

    async def show(envelope):
        print(json.dumps(envelope["payload"], ensure_ascii=False), flush=True)

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", nargs="?", default="data", help="the platform's data folder (default: data)")
    try:
        asyncio.run(feed(options.parse_args().data, show))
    except KeyboardInterrupt:
        pass
