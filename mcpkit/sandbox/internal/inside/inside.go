// Package inside is what the first process of a sandbox does: it makes the tree of
// files, gives up its rights, starts the server, reaps orphans, watches the limits and
// tells how the server ended. It runs in a process of its own, see package sandbox,
// and has no state of the platform.
package inside

// Order is what the first process is told, as one JSON value.
type Order struct {
	Path string   // of the server's program; empty: only the tree is made
	Args []string // its argv
	Dir  string
	Env  []string
	Tree []Mount

	NoNesting bool // no namespaces within
	Loopback  bool // the network is new, and its loopback interface is to be up

	Memory    int64
	Processes int
	OpenFiles int
}

// Mount is one path of the tree, as sandbox.Mount says.
type Mount struct {
	Kind, Path, Source string
	Write              bool
}

// Word is what the first process tells: once whether the server runs, and once that it
// has ended.
type Word struct {
	Failed string // what was tried where the server could not be started
	Detail string // the error
	Errno  int    // the error's number, or zero

	Ended    bool
	Alone    bool   // nothing that the server started lives on
	Status   uint32 // of wait(2)
	Exceeded string // the limit that the server was ended for
}
