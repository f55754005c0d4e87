package jsonvalue

import "slices"

// Object is a JSON object in the order of its keys.
type Object struct {
	keys []string
	vals map[string]any
}

// NewObject makes an object of pairs: key, value, key, value.
func NewObject(pairs ...any) *Object {
	o := &Object{vals: make(map[string]any, len(pairs)/2)}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.Set(pairs[i].(string), pairs[i+1])
	}
	return o
}

// Keys are the keys in order. The slice is shared until the next change.
func (o *Object) Keys() []string { return o.keys }

// Len is the number of keys.
func (o *Object) Len() int { return len(o.keys) }

// Get returns the value of key and whether there is one.
func (o *Object) Get(key string) (any, bool) { v, ok := o.vals[key]; return v, ok }

// Has reports whether key is there; a nil o has no keys.
func (o *Object) Has(key string) bool {
	if o == nil {
		return false
	}
	_, ok := o.vals[key]
	return ok
}

// Object returns the value of key when it is an object, else nil. A nil o has
// no keys.
func (o *Object) Object(key string) *Object {
	if o == nil {
		return nil
	}
	v, _ := o.vals[key].(*Object)
	return v
}

// List returns the value of key when it is an array, else nil.
func (o *Object) List(key string) []any { v, _ := o.vals[key].([]any); return v }

// String returns the value of key when it is a string, else "".
func (o *Object) String(key string) string { v, _ := o.vals[key].(string); return v }

// Set puts a value under key, in its old place or at the end.
func (o *Object) Set(key string, value any) {
	if _, ok := o.vals[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.vals[key] = value
}

// Delete removes keys that are there.
func (o *Object) Delete(keys ...string) {
	for _, key := range keys {
		if _, ok := o.vals[key]; ok {
			delete(o.vals, key)
			o.keys = slices.DeleteFunc(slices.Clone(o.keys), func(k string) bool { return k == key })
		}
	}
}

// Rename gives the value of key another key in the same place. The new key must
// be free.
func (o *Object) Rename(key, to string) {
	i := slices.Index(o.keys, key)
	o.keys = slices.Clone(o.keys)
	o.keys[i] = to
	o.vals[to] = o.vals[key]
	delete(o.vals, key)
}

// Shallow copies the object, not its values.
func (o *Object) Shallow() *Object {
	c := &Object{keys: slices.Clone(o.keys), vals: make(map[string]any, len(o.keys))}
	for k, v := range o.vals {
		c.vals[k] = v
	}
	return c
}
