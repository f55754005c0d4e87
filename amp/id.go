package amp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
)

// IDs makes ULIDs that rise strictly, also within a millisecond and when the
// clock is set back. The zero value is ready; it is safe for concurrent use.
type IDs struct {
	mu      sync.Mutex
	ms      uint64
	entropy io.Reader
}

var ids IDs

// NewID is a new ULID, above all that this process made with NewID before.
func NewID() string { return ids.New() }

// New is a ULID above all that g made before.
func (g *IDs) New() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.entropy == nil {
		g.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	g.ms = max(g.ms, ulid.Now())
	id, err := ulid.New(g.ms, g.entropy)
	for err != nil { // the random part of this millisecond ran over
		g.ms++
		id, err = ulid.New(g.ms, g.entropy)
	}
	return id.String()
}

// After makes all further ids lie above those of t, such as the time of the
// last id of an earlier process.
func (g *IDs) After(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ms = max(g.ms, ulid.Timestamp(t)+1)
}

// namespace is the UUIDv5 namespace of minted ids.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://aurorabot.dev/amp/message-id"))

// MintID makes the message id of an app's event from the id or idempotency key
// its server gave it: a ULID or UUID is kept in canonical form, anything else
// becomes the UUIDv5 of (server, id), see [Remint]. An empty id is a new one
// each time: equal content twice is two events.
func MintID(server, id string) string {
	if id == "" {
		return NewID()
	}
	if c, ok := canonical(id); ok {
		return c
	}
	return Remint(server, id)
}

// Remint is the UUIDv5 of (server, id): the id of an event whose own id is
// taken by another server, so that no server can suppress another's event.
func Remint(server, id string) string {
	return uuid.NewSHA1(namespace, []byte(server+"\x00"+id)).String()
}

// canonical is the one spelling of a ULID (upper case) or UUID (lower case).
// Neither has two ids that a case-insensitive file system would take for one.
func canonical(id string) (string, bool) {
	switch len(id) {
	case ulid.EncodedSize:
		if u, err := ulid.ParseStrict(id); err == nil {
			return u.String(), true
		}
	case 36:
		if u, err := uuid.Parse(id); err == nil {
			return u.String(), true
		}
	}
	return "", false
}

// CanonicalID is the form of an id that is both in the header and in the file's
// name: a ULID or UUID in its canonical spelling; any other id as it is if it
// has at most [MaxLength] bytes of a-z, 0-9, dot and dash; otherwise 32 hex
// digits of its SHA-256. So it has no "_", and ids that differ only in case do
// not share a file. CanonicalID of its own result is that result.
func CanonicalID(id string) string {
	if c, ok := canonical(id); ok {
		return c
	}
	if safeID(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

func safeID(id string) bool {
	if id == "" || len(id) > MaxLength {
		return false
	}
	for i := range len(id) {
		if c := id[i]; c == '_' || c >= 'A' && c <= 'Z' || c != '.' && !wordByte(c) {
			return false
		}
	}
	return true
}

const (
	filePrefix = "event_"
	fileSuffix = ".json"
	maxName    = 255 // bytes in a file's name, on every file system in use
)

// FileName is the name of an envelope's file: event_{type}_{message_id}.json,
// with the id as [CanonicalID] and the type in lower case. A type that does not
// fit or holds anything but words and dots is cut to its safe beginning and
// marked with 8 hex digits of its SHA-256. The name never exceeds 255 bytes
// and is a single path element.
func FileName(typ, id string) string {
	id = CanonicalID(id)
	room := min(MaxLength, maxName-len(filePrefix)-len("_")-len(id)-len(fileSuffix))
	return filePrefix + fileType(typ, room) + "_" + id + fileSuffix
}

func fileType(typ string, room int) string {
	if ValidType(typ) && len(typ) <= room {
		return strings.ToLower(typ)
	}
	sum := sha256.Sum256([]byte(typ))
	safe := 0
	for safe < len(typ) && safe < room-9 && (typ[safe] == '.' || wordByte(typ[safe])) {
		safe++
	}
	return strings.ToLower(typ[:safe]) + "-" + hex.EncodeToString(sum[:4])
}

// ParseFileName splits a file's name into the type and the message id, which is
// what follows the last "_". It reports false for any name that [FileName] does
// not make; such files are not the queue's.
func ParseFileName(name string) (typ, id string, ok bool) {
	rest, ok := strings.CutPrefix(name, filePrefix)
	if !ok || len(name) > maxName {
		return "", "", false
	}
	if rest, ok = strings.CutSuffix(rest, fileSuffix); !ok {
		return "", "", false
	}
	cut := strings.LastIndexByte(rest, '_')
	if cut < 1 {
		return "", "", false
	}
	typ, id = rest[:cut], rest[cut+1:]
	if strings.ContainsAny(typ, "/\x00") || typ != strings.ToLower(typ) || CanonicalID(id) != id {
		return "", "", false
	}
	return typ, id, true
}
