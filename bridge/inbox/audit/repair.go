package audit

// Repair is [Verify] that also does what can be done: what is damaged in the
// journal is copied aside, as a start does it, and a file that differs from its
// record is exchanged for one that does not. The file that was there is kept in
// rejected/. It may run beside a platform and a Brain: an event that the Brain
// takes meanwhile is left to it.
func Repair(at Folders) (*Report, error) { return compare(at, true) }
