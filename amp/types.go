package amp

import "strings"

// reserved are the first words of the types that only the platform may use.
var reserved = []string{"lifecycle", "tool", "permission", "mcp", "capability", "resource"}

// Reserved reports whether a type belongs to the platform, so that an app's
// event must not carry it: lifecycle.*, tool.*, permission.*, mcp.*,
// capability.* and resource.*, and these words alone, in any case.
func Reserved(typ string) bool {
	first, _, _ := strings.Cut(typ, ".")
	for _, word := range reserved {
		if strings.EqualFold(first, word) {
			return true
		}
	}
	return false
}

// ValidType reports whether typ has the form of an event type: at most
// [MaxLength] bytes, words of ASCII letters, digits, - and _ joined by single dots.
func ValidType(typ string) bool {
	if len(typ) > MaxLength {
		return false
	}
	for word := range strings.SplitSeq(typ, ".") {
		if word == "" {
			return false
		}
		for i := range len(word) {
			if !wordByte(word[i]) {
				return false
			}
		}
	}
	return true
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
