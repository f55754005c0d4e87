package inside

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Where the new and the old tree are while the new one is made.
const (
	fresh = "/tmp" // a folder that every machine has; what is in it comes back to light when the trees change places
	old   = "/old" // in the new tree
)

// tempSize bounds each folder that is forgotten in the end, in bytes.
const tempSize = 1 << 30

// makeTree makes a tree of the mounts, enters it and drops the old one. Each folder
// comes before what is in it.
func makeTree(mounts []Mount, memory int64) error {
	// Nothing that is mounted here is seen outside, and nothing that is mounted
	// outside from now on is seen here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return step(err, "making the mounts private")
	}
	size := int64(tempSize)
	if memory > 0 {
		size = min(size, memory)
	}
	temp := fmt.Sprintf("mode=0755,size=%d,nr_inodes=200000", size)
	if err := unix.Mount("tmpfs", fresh, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=16m"); err != nil {
		return step(err, "mounting the new root")
	}
	if err := os.Mkdir(fresh+old, 0o755); err != nil {
		return step(err, "making the new root")
	}
	// The machine's own /proc must be in sight for the kernel to allow another.
	if err := os.Mkdir(fresh+"/proc", 0o755); err != nil {
		return step(err, "making /proc")
	}
	if err := unix.Mount("proc", fresh+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return step(err, "mounting a /proc of its own")
	}
	if err := unix.PivotRoot(fresh, fresh+old); err != nil {
		return step(err, "entering the new root")
	}
	if err := unix.Chdir("/"); err != nil {
		return step(err, "entering the new root")
	}
	machine, err := unix.Open(old, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return step(err, "opening the old root")
	}
	if err := devices(machine, temp); err != nil {
		return err
	}
	for _, m := range mounts {
		if err := place(machine, m, temp); err != nil {
			return step(err, "giving %s", m.Path)
		}
	}
	unix.Close(machine)
	if err := unix.Unmount(old, unix.MNT_DETACH); err != nil {
		return step(err, "leaving the old root")
	}
	if err := os.Remove(old); err != nil {
		return step(err, "leaving the old root")
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return step(err, "making the root read-only")
	}
	return nil
}

// place puts one mount into the tree.
func place(machine int, m Mount, temp string) error {
	for _, dir := range parents(m.Path) {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	switch m.Kind {
	case "folder":
		if err := os.Mkdir(m.Path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	case "link":
		if err := os.Symlink(m.Source, m.Path); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	case "temp":
		if err := os.Mkdir(m.Path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		mode := "mode=0700"
		if m.Path == "/tmp" || m.Path == "/var/tmp" || m.Path == "/dev/shm" {
			mode = "mode=1777"
		}
		return mountTemp(m.Path, strings.Replace(temp, "mode=0755", mode, 1))
	case "bind":
		return bind(machine, m)
	default:
		return fmt.Errorf("unknown kind of mount %q", m.Kind)
	}
	return nil
}

func mountTemp(path, options string) error {
	return unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
}

// noLinks opens nothing through a symbolic link: a server that may write a folder must
// not lead the mounts of another one elsewhere. The paths of the tree are without links.
var noLinks = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}

// bind puts a file or folder of the machine into the tree. It is copied as a mount,
// restricted, and only then put where the server sees it.
func bind(machine int, m Mount) error {
	from, err := unix.Openat2(machine, strings.TrimPrefix(m.Source, "/"), &noLinks)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	var info unix.Stat_t
	if err := unix.Fstat(from, &info); err != nil {
		return err
	}
	clone, err := unix.OpenTree(from, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(clone)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if !m.Write {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if m.Kind == "device" {
		attr.Attr_set = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	}
	if err := unix.MountSetattr(clone, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return err
	}
	if info.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = unix.Mkdir(m.Path, 0o755)
	} else {
		var fd int
		if fd, err = unix.Open(m.Path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644); err == nil {
			unix.Close(fd)
		}
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	to, err := unix.Openat2(unix.AT_FDCWD, m.Path, &noLinks)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	return unix.MoveMount(clone, "", to, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// devices makes a /dev of the devices that have no effect beyond their process.
func devices(machine int, temp string) error {
	if err := os.Mkdir("/dev", 0o755); err != nil {
		return step(err, "making /dev")
	}
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=64k"); err != nil {
		return step(err, "mounting /dev")
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		if err := bind(machine, Mount{Kind: "device", Path: "/dev/" + name, Source: "/dev/" + name, Write: true}); err != nil {
			return step(err, "giving /dev/%s", name)
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return step(err, "making /dev/%s", name)
		}
	}
	for _, dir := range []string{"/dev/shm", "/dev/pts"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return step(err, "making %s", dir)
		}
	}
	if err := mountTemp("/dev/shm", strings.Replace(temp, "mode=0755", "mode=1777", 1)); err != nil {
		return step(err, "mounting /dev/shm")
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return step(err, "mounting /dev/pts")
	}
	return nil
}

// lockKernelFiles makes the files of /proc read-only through which the machine is
// configured, and takes away those that show its memory. The permissions of these
// files let a user root write them who has no capabilities at all.
func lockKernelFiles() error {
	for _, path := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi", "/proc/mtrr", "/proc/driver", "/proc/tty", "/proc/pressure"} {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return step(err, "locking %s", path)
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}); err != nil {
			return step(err, "locking %s", path)
		}
	}
	for _, path := range []string{"/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug", "/proc/kallsyms", "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/slabinfo", "/proc/vmallocinfo", "/proc/latency_stats"} {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if err := unix.Mount("/dev/null", path, "", unix.MS_BIND, ""); err != nil {
			return step(err, "hiding %s", path)
		}
	}
	return nil
}
