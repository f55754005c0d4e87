package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/aurorabot-dev/platform/mcpkit/redact/internal/shapes"
)

// Handler passes records on to next with secrets removed from the message and
// from every attribute. An attribute whose name says that it is a secret loses
// its value. Values that are neither text nor numbers are replaced by their text
// where that held a secret.
func (r *Redactor) Handler(next slog.Handler) slog.Handler { return &handler{r, next} }

type handler struct {
	r    *Redactor
	next slog.Handler
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h *handler) WithGroup(name string) slog.Handler { return &handler{h.r, h.next.WithGroup(name)} }

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.r, h.next.WithAttrs(h.attrs(attrs))}
}

func (h *handler) Handle(ctx context.Context, rec slog.Record) error {
	msg, _ := h.r.String(rec.Message)
	out := slog.NewRecord(rec.Time, rec.Level, msg, rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

func (h *handler) attrs(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = h.attr(a)
	}
	return out
}

func (h *handler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(h.attrs(v.Group())...)}
	case slog.KindString:
		if shapes.SecretName(a.Key) && shapes.Plausible(v.String(), true) {
			return slog.String(a.Key, shapes.Marker(shapes.Password))
		}
		s, _ := h.r.String(v.String())
		return slog.String(a.Key, s)
	case slog.KindAny:
		return slog.Attr{Key: a.Key, Value: h.any(v.Any())}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

func (h *handler) any(v any) slog.Value {
	switch v := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case json.RawMessage:
		out, _ := h.r.JSON(v)
		return slog.AnyValue(out)
	case []byte:
		out, _ := h.r.Bytes(v)
		return slog.AnyValue(out)
	}
	// This is what a handler of text writes, and for an error or a Stringer what
	// any handler writes.
	s, hits := h.r.String(fmt.Sprintf("%+v", v))
	if hits != nil {
		return slog.StringValue(s)
	}
	if _, ok := v.(error); ok {
		return slog.AnyValue(v)
	}
	// A handler of JSON sees more: what is behind pointers.
	raw, err := json.Marshal(v)
	if err != nil {
		return slog.AnyValue(v)
	}
	if raw, hits = h.r.JSON(raw); hits != nil {
		return slog.StringValue(string(raw))
	}
	return slog.AnyValue(v)
}
