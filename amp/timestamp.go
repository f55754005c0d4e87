package amp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Now is the current time as a Timestamp with the local offset, to the millisecond.
func Now() Timestamp { return Timestamp{time.Now().Truncate(time.Millisecond)} }

// ParseTimestamp reads a time in RFC 3339. A time without an offset, which
// ISO 8601 would allow, is an error: nobody could tell what moment it means.
func ParseTimestamp(s string) (Timestamp, error) {
	var t time.Time
	err := t.UnmarshalText([]byte(s))
	// time takes a one-digit hour, a comma and offsets beyond a day, which RFC 3339 has not.
	if err == nil && (s[len("2006-01-02T15")] != ':' || strings.Contains(s, ",")) {
		err = errors.New("not RFC 3339")
	}
	if err == nil {
		_, err = t.MarshalText()
	}
	if err != nil {
		return Timestamp{}, fmt.Errorf("%.40q is not an RFC 3339 time with an offset", s)
	}
	return Timestamp{t}, nil
}

// MarshalJSON writes RFC 3339 with an offset and as many fractional digits as needed.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return nil, errors.New("timestamp is not set")
	}
	return t.Time.MarshalJSON()
}

// UnmarshalJSON reads what [ParseTimestamp] accepts; null is an error.
func (t *Timestamp) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil || s == nil {
		return fmt.Errorf("want an RFC 3339 time as a string, got %s", kind(b))
	}
	parsed, err := ParseTimestamp(*s)
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}
