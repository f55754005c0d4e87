package approval

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// tx is one transaction of a Desk, at one moment.
type tx struct {
	*sql.Tx
	at     time.Time
	expire time.Duration
	woken  []string // whose state changed
}

// change runs do in a transaction, after everything overdue has expired, and
// wakes those who wait for what changed. It is done whole whether or not the
// caller still waits. What is overdue expires also where do fails.
func (d *Desk) change(ctx context.Context, what string, do func(*tx) error) (err error) {
	defer func() {
		var f *fault.Error
		if err != nil && !errors.As(err, &f) && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrDecided) && !errors.Is(err, ErrOther) {
			err = fmt.Errorf("%s: %w", what, err)
		}
	}()
	d.mu.Lock()
	expire := d.expire
	d.mu.Unlock()
	inner, err := d.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer inner.Rollback() // does nothing after Commit
	t := &tx{Tx: inner, at: d.now(), expire: expire}
	if err := t.expireOverdue(); err != nil {
		return err
	}
	failed := do(t)
	// What do refused it did not begin to change: each of its errors but those
	// of the database comes before its first write.
	if err := t.Commit(); err != nil {
		return errors.Join(failed, err)
	}
	d.wake(t.woken)
	return failed
}

func (t *tx) expireOverdue() error {
	rows, err := t.Query("UPDATE approvals SET state = ?, decided = ? WHERE state IN (?, ?) AND expires <= ? RETURNING id",
		Expired, t.at.UnixMilli(), Pending, Approved, t.at.UnixMilli())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		t.woken = append(t.woken, id)
	}
	return rows.Err()
}

// find is the answer that a question has, else the same question where it is
// open, else nil. A standing approval comes before one for one call, and any
// approval before a denial.
func (t *tx) find(c Call) (*Approval, error) {
	list, err := t.query("WHERE server = ? AND tool = ? AND hash = ? AND state IN (?, ?, ?) AND expires > ? ORDER BY id",
		c.Server, c.Tool, c.Hash, Approved, Denied, Pending, t.at.UnixMilli())
	if err != nil {
		return nil, err
	}
	rank := func(a *Approval) int {
		switch {
		case a.State == Approved && a.Scope != Once:
			return 4
		case a.State == Approved:
			return 3
		case a.State == Denied:
			return 2
		}
		return 1
	}
	var best *Approval
	for i := range list {
		if a := &list[i]; a.covers(c) && (best == nil || rank(a) > rank(best)) {
			best = a
		}
	}
	return best, nil
}

// take makes use of an approval and reports whether it was one to use.
func (t *tx) take(a *Approval) (bool, error) {
	if a.State != Approved {
		return false, nil
	}
	if a.Scope != Once {
		return true, nil
	}
	a.State = Used
	return true, t.update(a)
}

// insert lays a question open, if there is room.
func (t *tx) insert(q Question, d *Desk) (Approval, error) {
	d.mu.Lock()
	most := d.pending
	d.mu.Unlock()
	var open int
	if err := t.QueryRow("SELECT count(*) FROM approvals WHERE state = ?", Pending).Scan(&open); err != nil {
		return Approval{}, err
	}
	if open >= most {
		return Approval{}, fault.New(fault.Busy, "%d approvals are waiting for an answer already", open).Retry()
	}
	return t.add(q, d)
}

// add writes a question, and forgets the oldest of those that are closed.
func (t *tx) add(q Question, d *Desk) (Approval, error) {
	d.mu.Lock()
	d.asked++
	sweep := d.asked%sweepAll == 1
	d.mu.Unlock()
	if sweep {
		if _, err := t.Exec(`DELETE FROM approvals WHERE state NOT IN (?, ?) AND expires <= ? AND id NOT IN
			(SELECT id FROM approvals WHERE state NOT IN (?, ?) ORDER BY id DESC LIMIT ?)`,
			Pending, Approved, t.at.UnixMilli(), Pending, Approved, MaxHistory); err != nil {
			return Approval{}, err
		}
	}
	a := Approval{
		ID: newID(t.at), State: Pending, Call: q.Call, Arguments: d.redact(q.Arguments), Size: int64(len(q.Arguments)), Reason: q.Reason,
		Risk: q.Risk, Entrance: q.Entrance, CallID: q.CallID, Created: t.at, Expires: t.at.Add(t.expire),
	}
	if !json.Valid(a.Arguments) {
		return Approval{}, errors.New("the arguments are not JSON once secrets are removed")
	}
	if len(a.Arguments) > MaxArguments {
		beginning, err := json.Marshal(strings.ToValidUTF8(string(a.Arguments[:MaxArguments]), ""))
		if err != nil {
			return Approval{}, err
		}
		a.Arguments, a.Cut = beginning, true
	}
	_, err := t.Exec(`INSERT INTO approvals (id, state, server, tool, hash, definition, causes, arguments, cut, size, reason, risk, entrance, call_id, created, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.ID, a.State, a.Server, a.Tool, a.Hash, a.Definition, int(a.Causes), []byte(a.Arguments), a.Cut, a.Size, a.Reason, a.Risk, a.Entrance, a.CallID,
		millis(a.Created), millis(a.Expires))
	return a, err
}

// update writes what can change of an approval.
func (t *tx) update(a *Approval) error {
	t.woken = append(t.woken, a.ID)
	_, err := t.Exec("UPDATE approvals SET state = ?, scope = ?, actor = ?, note = ?, expires = ?, decided = ? WHERE id = ?",
		a.State, a.Scope, a.Actor, a.Note, millis(a.Expires), millis(a.Decided), a.ID)
	return err
}

func (t *tx) get(id string) (Approval, error) {
	list, err := t.query("WHERE id = ?", id)
	if err == nil && len(list) == 0 {
		return Approval{}, fmt.Errorf("%.40q: %w", id, ErrNotFound)
	}
	if err != nil {
		return Approval{}, err
	}
	return list[0], nil
}

func (t *tx) list(states []State) ([]Approval, error) {
	if len(states) == 0 {
		return t.query("ORDER BY id DESC")
	}
	args := make([]any, len(states))
	for i, s := range states {
		args[i] = s
	}
	return t.query("WHERE state IN (?"+strings.Repeat(", ?", len(states)-1)+") ORDER BY id DESC", args...)
}

func (t *tx) query(where string, args ...any) ([]Approval, error) {
	rows, err := t.Query(`SELECT id, state, scope, server, tool, hash, definition, causes, arguments, cut, size, reason, risk, entrance, call_id,
		actor, note, created, expires, decided FROM approvals `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Approval{}
	for rows.Next() {
		var a Approval
		var created, expires, decided int64
		if err := rows.Scan(&a.ID, &a.State, &a.Scope, &a.Server, &a.Tool, &a.Hash, &a.Definition, &a.Causes, &a.Arguments, &a.Cut, &a.Size, &a.Reason,
			&a.Risk, &a.Entrance, &a.CallID, &a.Actor, &a.Note, &created, &expires, &decided); err != nil {
			return nil, err
		}
		a.Created, a.Expires, a.Decided = moment(created), moment(expires), moment(decided)
		list = append(list, a)
	}
	return list, rows.Err()
}

// millis and moment are the two directions of a time in the table. Where an
// approval does not expire the table holds a time that never comes.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return forEver
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 || ms == forEver {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
