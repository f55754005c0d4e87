// Package sandbox confines the process of a server: the process and its descendants
// run in user, mount, pid, IPC and host name namespaces of their own, where only those
// files are that a [Profile] names, without capabilities and with limits. No rights of
// root are needed.
//
//	mounts, err := profile.Mounts()      // what there will be; nothing is started
//	reach := sandbox.Explain(mounts, "/etc/passwd")
//
//	cmd.SysProcAttr = …                  // as without confinement
//	proc, err := sandbox.Confine(cmd, profile)
//	err = cmd.Start()
//	err = proc.Begin()                   // the server runs, or why it does not
//	end := <-proc.Ended()
//
// Confine has cmd execute this program a second time, as process 1 of the new
// namespaces ([RunIfAsked]); that process makes the tree of files, gives up all
// rights and starts the server as its child. When it ends, the kernel kills all that
// is left in the namespaces. docs/design/sandbox.md has the reasons.
//
// The package knows nothing of manifests and of the platform's folders; its caller
// says what is to be hidden. It works on Linux alone.
package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// ErrUnavailable says that this system does not let a process be confined.
var ErrUnavailable = errors.New("the system does not allow a sandbox")

// Values of Profile.Network.
const (
	NetworkAll  = "all"  // the network of the machine, loopback included
	NetworkNone = "none" // a loopback interface of the server's own and nothing else
)

// Profile says what a confined process may reach. All paths are absolute and clean.
// What a profile does not name, and what is not of the system ([System]), is not there.
type Profile struct {
	// Program is the file that is executed, Dir the working directory. Confine takes
	// them from the command. What the program needs beside its file is readable where
	// it is laid out in a usual way, see [Named].
	Program, Dir string
	// Read and Write are files and folders that somebody named for the server.
	Read, Write []string
	// Own are folders that the caller made for this server. They are writable, and may
	// be below a hidden folder.
	Own []string
	// OwnRead are files and folders of the server itself, such as its program. They may
	// be below a hidden folder and are read-only.
	OwnRead []string
	// Hidden are files and folders that are not there even where a folder above them
	// is. A path of Write may not be above one.
	Hidden []string
	// Home is where the server's home is, HomeDir the folder that is there in place of
	// the real one. Where HomeDir is empty the home is empty and forgotten in the end.
	Home, HomeDir string
	// Temp are further folders that are writable, empty and forgotten in the end.
	Temp []string
	// Network is one of NetworkAll and NetworkNone.
	Network string
	// NoNesting forbids namespaces within the sandbox, which browsers use to confine
	// pages, and which are a large part of the kernel to attack.
	NoNesting bool
	Limits    Limits
}

// Limits bound the whole of a confined server. Zero is without limit.
type Limits struct {
	Memory    int64 // bytes of the private memory of all its processes; the server is ended beyond
	Processes int   // processes; the server is ended beyond
	OpenFiles int   // descriptors of each process
}

// Equal reports whether two profiles, each of which may be nil, confine alike.
func (p *Profile) Equal(o *Profile) bool {
	if p == nil || o == nil {
		return p == o
	}
	return slices.Equal(p.Read, o.Read) && slices.Equal(p.Write, o.Write) && slices.Equal(p.Own, o.Own) && slices.Equal(p.OwnRead, o.OwnRead) &&
		p.Program == o.Program && p.Dir == o.Dir &&
		slices.Equal(p.Hidden, o.Hidden) && slices.Equal(p.Temp, o.Temp) && p.Home == o.Home && p.HomeDir == o.HomeDir &&
		p.Network == o.Network && p.NoNesting == o.NoNesting && p.Limits == o.Limits
}

// End is how a confined server ended.
type End struct {
	Status syscall.WaitStatus // of the server itself
	Alone  bool               // nothing that the server started lives on
	// Exceeded says which limit the server was ended for, as a sentence; or it is empty.
	Exceeded string
}

// StartError is why a confined server was not started. It wraps the system's error.
type StartError struct {
	Step string // what was tried
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("sandbox: %s: %v", e.Step, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }
